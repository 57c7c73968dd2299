#include "hostagent/marker.h"

#include <algorithm>

namespace hostagent {

std::optional<std::string_view> MarkerScanner::feed(std::string_view piece) {
    // The marker may stand across the border of two pieces: look at the end of the old ones too.
    const std::size_t old = noise_.size();
    noise_ += piece;
    const std::size_t from = old > line_.size() ? old - line_.size() : 0;
    const auto at = noise_.find(line_, from);
    if (at == std::string::npos) {
        if (noise_.size() > kNoiseBytes) noise_.erase(0, noise_.size() - kNoiseBytes);
        return std::nullopt;
    }
    const std::size_t rest = noise_.size() - at - line_.size();
    noise_.resize(at);
    return piece.substr(piece.size() - rest);
}

}  // namespace hostagent
