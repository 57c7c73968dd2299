#include "api/http/sse.h"

#include <algorithm>
#include <utility>

#include "api/http/worker_threads.h"

namespace http {

using shared::Monotonic;
using shared::TimePoint;

namespace {

void append_field(std::string& out, std::string_view name, std::string_view value) {
    out.append(name).append(": ");
    for (const char c : value)
        if (c != '\n' && c != '\r' && c != '\0') out += c;
    out += '\n';
}

}  // namespace

std::string event_text(const Event& event) {
    std::string out;
    out.reserve(event.data.size() + event.id.size() + event.name.size() + 32);
    if (!event.id.empty()) append_field(out, "id", event.id);
    if (!event.name.empty()) append_field(out, "event", event.name);
    std::string_view rest = event.data;
    while (true) {
        const auto end = rest.find_first_of("\r\n");
        out.append("data: ").append(rest.substr(0, end)) += '\n';
        if (end == std::string_view::npos) break;
        rest.remove_prefix(rest.substr(end, 2) == "\r\n" ? end + 2 : end + 1);
    }
    out += '\n';
    return out;
}

EventStream::EventStream(StreamWriter& writer) : writer_(writer), last_write_(Monotonic::now()) {}

bool EventStream::send(const Event& event) {
    last_write_ = Monotonic::now();
    return writer_.write(event_text(event));
}

std::shared_ptr<Waker> EventStream::waker() {
    return writer_.client().waker();
}

Wake EventStream::wait(TimePoint until) {
    while (true) {
        if (std::exchange(deep_, false)) release_unused_stack();
        const TimePoint keep_alive = last_write_ + kKeepAlivePeriod;
        const Wake wake = writer_.client().wait(std::min(until, keep_alive));
        if (wake != Wake::timed_out) return wake;
        const auto now = Monotonic::now();
        if (now >= keep_alive) {
            last_write_ = now;
            if (!writer_.write(": still here\n\n")) return Wake::gone;
            deep_ = true;  // nothing happened for long, and now nothing does again
        }
        if (now >= until) return Wake::timed_out;
    }
}

Response event_stream(std::function<void(EventStream&)> handler) {
    Response response;
    response.content_type = "text/event-stream";
    response.headers.emplace_back("Cache-Control", "no-store");
    response.stream = [handler = std::move(handler)](StreamWriter& writer) {
        EventStream events(writer);
        handler(events);
    };
    return response;
}

}  // namespace http
