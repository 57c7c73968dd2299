// The streams of model providers, and their error answers.
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/providers/anthropic.h"
#include "api/providers/chat_completions.h"
#include "api/providers/codec.h"
#include "api/providers/endpoint.h"
#include "api/providers/python_tool.h"
#include "api/providers/responses.h"
#include "api/providers/retry.h"
#include "api/providers/sse_parser.h"
#include "cli/sse.h"
#include "shared/result.h"
#include "tests/fuzz/targets.h"

namespace {

using providers::SseEvent;

constexpr std::size_t kEventBytes = 1024;  // so that a small input can pass it

std::vector<SseEvent> events_in(std::string_view bytes, std::size_t piece, bool& whole) {
    providers::SseParser parser(kEventBytes);
    std::vector<SseEvent> events;
    whole = true;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
        auto more = parser.feed(bytes.substr(at, piece));
        whole = more.ok();
        if (!more) break;
        for (auto& event : *more) events.push_back(std::move(event));
    }
    return events;
}

/// An answer ends once; nothing comes out after its end.
class Watch {
  public:
    void take(const std::vector<providers::ModelEvent>& events) {
        for (const auto& event : events) {
            ALBEDO_CHECK(!ended_);
            ended_ = std::holds_alternative<providers::Completed>(event) ||
                     std::holds_alternative<providers::StreamError>(event);
            if (const auto* call = std::get_if<providers::ToolCallDone>(&event)) {
                ALBEDO_CHECK(!call->name.empty());
                ALBEDO_CHECK(call->arguments.size() <= providers::kMaxCallArgumentsBytes);
                ALBEDO_CHECK(static_cast<std::size_t>(call->index) < providers::kMaxCallsPerAnswer);
            }
        }
    }
    bool ended() const { return ended_; }

  private:
    bool ended_ = false;
};

void stream(std::string_view bytes, providers::Decoder& decoder) {
    bool whole = true;
    bool whole_by_bytes = true;
    const auto events = events_in(bytes, bytes.size() + 1, whole);
    const auto by_bytes = events_in(bytes, 1, whole_by_bytes);
    ALBEDO_CHECK(whole == whole_by_bytes);
    if (whole) {
        ALBEDO_CHECK(events.size() == by_bytes.size());
        for (std::size_t i = 0; i < events.size(); ++i)
            ALBEDO_CHECK(events[i].name == by_bytes[i].name && events[i].data == by_bytes[i].data);
    }
    Watch watch;
    for (const auto& event : by_bytes) watch.take(decoder.feed(event.name, event.data));
    const bool ended = watch.ended();
    watch.take(decoder.end());
    ALBEDO_CHECK(watch.ended());
    if (ended) ALBEDO_CHECK(decoder.end().empty());
}

void daemon_stream(std::string_view bytes) {
    std::vector<std::string> whole;
    std::vector<std::string> pieces;
    cli::SseParser once;
    const bool went_on = once.feed(bytes, [&](const cli::SseEvent& event) {
        whole.push_back(event.name + "\n" + event.id + "\n" + event.data);
        return true;
    });
    cli::SseParser slow;
    for (const char byte : bytes)
        ALBEDO_CHECK(slow.feed({&byte, 1}, [&](const cli::SseEvent& event) {
            pieces.push_back(event.name + "\n" + event.id + "\n" + event.data);
            return true;
        }));
    ALBEDO_CHECK(went_on && whole == pieces);
}

void words(std::string_view bytes) {
    const auto pause = providers::parse_retry_after(bytes, 1'700'000'000'000);
    ALBEDO_CHECK(!pause || pause->count() >= 0);
    if (const auto url = providers::parse_url(bytes)) {
        ALBEDO_CHECK(!url->host.empty() && url->port != 0);
        ALBEDO_CHECK(url->path.empty() || url->path.front() == '/');
    }
    const auto call = providers::parse_python_call("python", std::string(bytes));
    ALBEDO_CHECK(!call ||
                 (call->timeout_ms >= 1 && call->timeout_ms <= providers::kMaxCellTimeoutMs));
}

}  // namespace

void fuzz::provider(std::string_view bytes) {
    switch (choice(bytes, 5)) {
        case 0:
            return stream(bytes, *providers::ResponsesCodec().decoder());
        case 1:
            return stream(bytes, *providers::ChatCompletionsCodec().decoder());
        case 2:
            return stream(bytes, *providers::AnthropicCodec().decoder());
        case 3:
            return daemon_stream(bytes);
        default:
            return words(bytes);
    }
}
