#include "api/providers/codec.h"

namespace providers {

std::vector<ModelEvent> Decoder::feed(std::string_view name, std::string_view data) {
    out_.clear();
    if (!finished_) read(name, data);
    return std::move(out_);
}

std::vector<ModelEvent> Decoder::end() {
    out_.clear();
    if (!finished_) read_end();
    if (!finished_) fail("", "the stream ended before the answer was whole", true);
    return std::move(out_);
}

void Decoder::emit(ModelEvent event) {
    if (!finished_) out_.push_back(std::move(event));
}

void Decoder::text(std::string delta) {
    if (delta.empty()) return;
    text_bytes_ += delta.size();
    if (text_bytes_ > kMaxAnswerTextBytes) return fail("", "the answer is too long", false);
    emit(TextDelta{std::move(delta)});
}

void Decoder::reasoning(std::string delta) {
    if (delta.empty()) return;
    emit(ReasoningDelta{std::move(delta)});
}

void Decoder::fail(std::string code, std::string message, bool retryable) {
    emit(StreamError{std::move(code), std::move(message), retryable});
    finished_ = true;
}

int Decoder::call(const std::string& key, const std::string& call_id, const std::string& name) {
    if (finished_) return -1;
    auto [found, is_new] = call_keys_.try_emplace(key, static_cast<int>(calls_.size()));
    if (is_new) {
        if (calls_.size() == kMaxCallsPerAnswer) {
            fail("", "the answer holds too many tool calls", false);
            return -1;
        }
        calls_.emplace_back().so_far.index = found->second;
    }
    Call& entry = calls_[static_cast<std::size_t>(found->second)];
    if (!call_id.empty()) entry.so_far.call_id = call_id;
    if (!name.empty()) entry.so_far.name = name;
    // Some servers give the name only with the whole item, after the arguments.
    if (!entry.started && !entry.so_far.name.empty()) {
        entry.started = true;
        emit(ToolCallStarted{found->second, entry.so_far.name});
        if (!entry.so_far.arguments.empty())
            emit(ToolCallArguments{found->second, entry.so_far.arguments});
    }
    return found->second;
}

void Decoder::call_arguments(int index, const std::string& delta) {
    if (index < 0 || delta.empty()) return;
    Call& entry = calls_[static_cast<std::size_t>(index)];
    if (entry.done) return;
    if (entry.so_far.arguments.size() + delta.size() > kMaxCallArgumentsBytes)
        return fail("", "a tool call's arguments are too long", false);
    entry.so_far.arguments += delta;
    if (entry.started) emit(ToolCallArguments{index, delta});
}

void Decoder::call_done(int index, const std::string& whole) {
    if (index < 0) return;
    Call& entry = calls_[static_cast<std::size_t>(index)];
    if (entry.done) return;
    if (whole.size() > kMaxCallArgumentsBytes)
        return fail("", "a tool call's arguments are too long", false);
    if (!whole.empty()) entry.so_far.arguments = whole;
    if (entry.so_far.name.empty())
        return fail("", "the answer holds a tool call without a name", false);
    entry.done = true;
    emit(entry.so_far);
}

void Decoder::complete(const std::string& stop) {
    for (std::size_t index = 0; index < calls_.size(); ++index)
        call_done(static_cast<int>(index), "");
    emit(Completed{stop.empty() ? (calls_.empty() ? "stop" : "tool_calls") : stop});
    finished_ = true;
}

bool is_passing_trouble(std::string_view code) {
    return code == "server_error" || code == "rate_limit_exceeded" || code == "overloaded_error" ||
           code == "rate_limit_error" || code == "api_error" || code == "timeout_error" ||
           code == "429" || code == "500" || code == "502" || code == "503" || code == "504" ||
           code == "529";
}

}  // namespace providers
