// What comes back from a model while it answers, in no protocol's words, and how an attempt ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace providers {

struct TextDelta {
    std::string text;
};
struct ReasoningDelta {
    std::string text;
};
/// `index` counts the calls of one answer from 0.
struct ToolCallStarted {
    int index = 0;
    std::string name;
};
struct ToolCallArguments {
    int index = 0;
    std::string delta;
};
struct ToolCallDone {
    int index = 0;
    std::string call_id;  // as the provider gave it; may repeat over turns, may be empty
    std::string name;
    std::string arguments;
};
struct Usage {
    std::int64_t input_tokens = 0;
    std::int64_t output_tokens = 0;
};
/// The answer is whole. `stop` is "stop", "tool_calls", "length" or the provider's own word.
struct Completed {
    std::string stop;
};
/// The provider, or what it sent, ends the attempt. `code` is the provider's word if it gave one.
struct StreamError {
    std::string code;
    std::string message;
    bool retryable = false;
};

using ModelEvent = std::variant<TextDelta, ReasoningDelta, ToolCallStarted, ToolCallArguments,
                                ToolCallDone, Usage, Completed, StreamError>;

/// Takes events as they come. Must not wait; called by one thread at a time.
class EventSink {
  public:
    virtual ~EventSink() = default;
    virtual void on_event(const ModelEvent& event) = 0;
};

enum class FailureKind {
    transport,  // no connection, cut, silent too long
    status,     // an HTTP status from 400
    protocol,   // an answer that breaks its protocol or our limits
    provider,   // an error event inside the stream
    cancelled,
    config,  // no key, a broken URL: nothing was sent
};

/// How an attempt failed. The message is for a person and holds no key.
struct Failure {
    FailureKind kind = FailureKind::transport;
    std::string message;
    int status = 0;
    std::optional<std::chrono::milliseconds> retry_after = {};  // as told, not capped yet
    bool retryable = false;                                     // for kind provider
    bool output_started = false;  // text, reasoning or a call already reached the sink
};

struct Completion {
    std::string stop;
    std::string text;
    std::string reasoning;
    std::vector<ToolCallDone> calls;
    Usage usage;
};

/// An attempt's end. What of a failed answer arrived before stays in the sink's hands.
using Outcome = std::variant<Completion, Failure>;

}  // namespace providers
