// Server-sent events out of bytes in any pieces (HTML standard, 9.2.6). Pure.
//
// Lines end in LF, CR or CRLF; a byte order mark at the start is dropped; comments are skipped;
// an event that the stream's end cut off is not given out, as the standard says.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "shared/result.h"

namespace providers {

/// One event's data and one line at most; a provider that sends more is broken.
inline constexpr std::size_t kMaxSseEventBytes = 8 << 20;

struct SseEvent {
    std::string name;  // empty if none was given
    std::string data;
};

class SseParser {
  public:
    explicit SseParser(std::size_t max_event_bytes = kMaxSseEventBytes)
        : max_event_bytes_(max_event_bytes) {}

    /// The events that these bytes complete. Errors: too_large; the parser stays there.
    shared::Result<std::vector<SseEvent>> feed(std::string_view bytes);

  private:
    void end_line(std::vector<SseEvent>& events);

    std::size_t max_event_bytes_;
    std::string line_;
    SseEvent event_;
    bool has_data_ = false;
    bool after_cr_ = false;
    bool first_line_ = true;
    bool failed_ = false;
};

}  // namespace providers
