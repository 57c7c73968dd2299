// Server-sent events: framing, keep-alive, and the end when the client is gone.
//
//     return http::event_stream([=](http::EventStream& events) {
//         const auto waker = events.waker();          // subscribe it
//         while (...) {
//             if (!events.send({.id = "12", .name = "output", .data = json})) return;
//             if (events.wait(until) == http::Wake::gone) return;
//         }
//     });
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "api/http/server.h"
#include "shared/clock.h"

namespace http {

inline constexpr shared::Milliseconds kKeepAlivePeriod{5'000};

struct Event {
    std::string id{};         // empty: none. Becomes the client's Last-Event-ID
    std::string name{};       // empty: "message"
    std::string_view data{};  // lines end in \n, \r\n or \r, each becomes a `data:` line
};

/// The bytes of one event, with the empty line at its end. Line ends and NUL in id and name are
/// dropped: they come from us, but a name must never start a field of its own.
std::string event_text(const Event& event);

class EventStream {
  public:
    explicit EventStream(StreamWriter& writer);

    /// False: the client is gone or does not read; return.
    bool send(const Event& event);
    std::shared_ptr<Waker> waker();
    /// Waits as Client::wait() does; a comment line goes out whenever nothing was written for
    /// kKeepAlivePeriod. A client that takes none of them is `gone`.
    Wake wait(shared::TimePoint until);

  private:
    StreamWriter& writer_;
    shared::TimePoint last_write_;
    bool deep_ = true;  // calls went deep since the stack was last released
};

/// 200 text/event-stream, no-store.
Response event_stream(std::function<void(EventStream&)> handler);

}  // namespace http
