// Server-sent events, bytes to events. Pure: the connection is the client's matter.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace cli {

struct SseEvent {
    std::string name = "message";
    std::string data;  // the data lines, joined by newlines
    std::string id;    // the stream's last id, as Last-Event-ID wants it
};

/// Feed it bytes in pieces of any size; it calls back with each whole event. Comments are skipped.
class SseParser {
  public:
    /// An event longer than this ends the stream: a peer that breaks the rules.
    static constexpr std::size_t kMaxEventBytes = 32 << 20;

    /// False when an event passed kMaxEventBytes or `on_event` said stop (returned false).
    bool feed(std::string_view bytes, const std::function<bool(const SseEvent&)>& on_event);

  private:
    bool line(std::string_view text, const std::function<bool(const SseEvent&)>& on_event);

    std::string partial_;
    SseEvent event_;
    bool has_data_ = false;
};

}  // namespace cli
