#include "api/sessions/cell_output.h"

#include <algorithm>
#include <utility>

namespace sessions {

void CellOutput::append(std::uint64_t offset, std::shared_ptr<const std::string> payload,
                        std::size_t skip) {
    std::string_view bytes = std::string_view(*payload).substr(skip);
    if (offset < end_) {
        const std::uint64_t known = end_ - offset;
        if (known >= bytes.size()) return;
        bytes.remove_prefix(known);
        offset = end_;
    }
    if (bytes.empty()) return;
    if (offset > end_) {
        chunks_.clear();
        begin_ = offset;
    }
    chunks_.push_back({offset, std::move(payload), bytes});
    end_ = offset + bytes.size();
    until_ = std::max(until_, end_);
    while (chunks_.size() > 1 && end_ - begin_ > kHotBytes) {
        begin_ += chunks_.front().bytes.size();
        chunks_.pop_front();
    }
}

std::optional<CellOutput::Piece> CellOutput::read(std::uint64_t offset, std::size_t limit) const {
    if (offset < begin_ || offset >= end_) return std::nullopt;
    auto at = std::upper_bound(
        chunks_.begin(), chunks_.end(), offset,
        [](std::uint64_t wanted, const Chunk& chunk) { return wanted < chunk.offset; });
    const Chunk& chunk = *std::prev(at);
    return Piece{chunk.payload, chunk.bytes.substr(offset - chunk.offset, limit)};
}

std::optional<CellOutput::Window> CellOutput::want(std::uint64_t offset) {
    const std::uint64_t target = std::min(offset, end_) + kWindowBytes;
    if (target < until_ + kWindowBytes / 2) return std::nullopt;
    until_ = target;
    return Window{end_, until_};
}

std::optional<CellOutput::Window> CellOutput::resume() {
    if (readers_ == 0) return std::nullopt;
    until_ = end_ + kWindowBytes;
    return Window{end_, until_};
}

void CellOutput::clear() {
    chunks_.clear();
    begin_ = end_;
    until_ = end_;
}

}  // namespace sessions
