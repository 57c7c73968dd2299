#include "cli/sse.h"

namespace cli {

bool SseParser::feed(std::string_view bytes, const std::function<bool(const SseEvent&)>& on_event) {
    while (true) {
        const auto end = bytes.find('\n');
        if (end == std::string_view::npos) break;
        partial_.append(bytes.substr(0, end));
        bytes.remove_prefix(end + 1);
        if (!partial_.empty() && partial_.back() == '\r') partial_.pop_back();
        const bool more = line(partial_, on_event);
        partial_.clear();
        if (!more) return false;
    }
    partial_.append(bytes);
    return partial_.size() + event_.data.size() <= kMaxEventBytes;
}

bool SseParser::line(std::string_view text, const std::function<bool(const SseEvent&)>& on_event) {
    if (text.empty()) {
        const bool whole = has_data_;
        SseEvent event = event_;
        event_.name = "message";
        event_.data.clear();
        has_data_ = false;
        return !whole || on_event(event);
    }
    const auto colon = text.find(':');
    const std::string_view field = text.substr(0, colon);
    std::string_view value = colon == std::string_view::npos ? "" : text.substr(colon + 1);
    if (!value.empty() && value.front() == ' ') value.remove_prefix(1);
    if (field == "event") {
        event_.name = value;
    } else if (field == "id") {
        event_.id = value;
    } else if (field == "data") {
        if (has_data_) event_.data += '\n';
        event_.data += value;
        has_data_ = true;
    }
    return event_.data.size() <= kMaxEventBytes;
}

}  // namespace cli
