#include "api/providers/sse_parser.h"

namespace providers {

void SseParser::end_line(std::vector<SseEvent>& events) {
    std::string_view line = line_;
    if (first_line_ && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
    first_line_ = false;
    if (line.empty()) {
        if (has_data_) events.push_back(std::move(event_));
        event_ = {};
        has_data_ = false;
        return;
    }
    const auto colon = line.find(':');
    const auto field = line.substr(0, colon);
    auto value = colon == line.npos ? std::string_view() : line.substr(colon + 1);
    if (value.starts_with(' ')) value.remove_prefix(1);
    if (field == "data") {
        if (has_data_) event_.data += '\n';
        event_.data += value;
        has_data_ = true;
    } else if (field == "event") {
        event_.name = value;
    }
}

shared::Result<std::vector<SseEvent>> SseParser::feed(std::string_view bytes) {
    std::vector<SseEvent> events;
    while (!bytes.empty() && !failed_) {
        if (after_cr_) {
            after_cr_ = false;
            if (bytes.front() == '\n') {
                bytes.remove_prefix(1);
                continue;
            }
        }
        const auto end = bytes.find_first_of("\r\n");
        const auto part = bytes.substr(0, end);
        if (line_.size() + event_.data.size() + part.size() > max_event_bytes_) {
            failed_ = true;
            break;
        }
        line_ += part;
        if (end == bytes.npos) break;
        after_cr_ = bytes[end] == '\r';
        bytes.remove_prefix(end + 1);
        end_line(events);
        line_.clear();
    }
    if (failed_)
        return shared::Error{
            shared::ErrorCode::too_large,
            "an event of the stream is over " + std::to_string(max_event_bytes_) + " bytes",
            {}};
    return events;
}

}  // namespace providers
