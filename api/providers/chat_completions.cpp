#include "api/providers/chat_completions.h"

#include "api/providers/provider_json.h"

namespace providers {
namespace {

using nlohmann::json;

// Calls and the text before them make one assistant message.
class Messages {
  public:
    explicit Messages(const std::string& instructions) {
        messages_.push_back({{"role", "system"}, {"content", instructions}});
    }
    void operator()(const UserItem& item) {
        messages_.push_back({{"role", "user"}, {"content", item.text}});
    }
    void operator()(const AssistantItem& item) {
        messages_.push_back({{"role", "assistant"}, {"content", item.text}});
    }
    void operator()(const ToolCallItem& item) {
        if (messages_.back()["role"] != "assistant")
            messages_.push_back({{"role", "assistant"}, {"content", nullptr}});
        messages_.back()["tool_calls"].push_back(
            {{"id", item.call_id},
             {"type", "function"},
             {"function", {{"name", item.name}, {"arguments", item.arguments}}}});
    }
    void operator()(const ToolResultItem& item) {
        messages_.push_back(
            {{"role", "tool"}, {"tool_call_id", item.call_id}, {"content", item.output}});
    }
    json take() { return std::move(messages_); }

  private:
    json messages_ = json::array();
};

class ChatDecoder : public Decoder {
    void read(std::string_view, std::string_view data) override {
        if (data == "[DONE]") return complete(stop_);
        const auto payload = parse_json(data);
        if (!payload || !payload->is_object())
            return fail("", "the stream holds what is not JSON", true);
        if (const auto& error = member_of(*payload, "error"); error.is_object()) {
            auto code = text_of(error, "code");
            if (code.empty() && member_of(error, "code").is_number_integer())
                code = std::to_string(number_of(error, "code"));
            if (code.empty()) code = text_of(error, "type");
            return fail(code, text_of(error, "message"), is_passing_trouble(code));
        }
        const auto& usage = member_of(*payload, "usage");
        if (usage.is_object())
            emit(Usage{number_of(usage, "prompt_tokens"), number_of(usage, "completion_tokens")});
        const auto& choices = member_of(*payload, "choices");
        if (!choices.is_array() || choices.empty()) return;
        const auto& delta = member_of(choices[0], "delta");
        reasoning(text_of(delta, "reasoning_content"));
        reasoning(text_of(delta, "reasoning"));
        text(text_of(delta, "content"));
        text(text_of(delta, "refusal"));
        const auto& calls = member_of(delta, "tool_calls");
        if (calls.is_array())
            for (const auto& piece : calls) call_piece(piece);
        if (const auto reason = text_of(choices[0], "finish_reason"); !reason.empty())
            stop_ = reason;
    }

    void call_piece(const json& piece) {
        const auto id = text_of(piece, "id");
        const auto& function = member_of(piece, "function");
        const auto place = number_of(piece, "index", -1);
        // A server that leaves the place out starts each call with its id.
        if (place >= 0)
            key_ = "at " + std::to_string(place);
        else if (!id.empty())
            key_ = "id " + id;
        call_arguments(call(key_, id, text_of(function, "name")), text_of(function, "arguments"));
    }

    // Some servers close the stream without [DONE].
    void read_end() override {
        if (!stop_.empty()) complete(stop_);
    }

    std::string key_ = "only";
    std::string stop_;
};

}  // namespace

std::string ChatCompletionsCodec::encode(const ModelRequest& request) const {
    Messages messages(request.instructions);
    for (const auto& item : request.items) std::visit(messages, item);
    json body = {{"model", request.model},
                 {"messages", messages.take()},
                 {"stream", true},
                 {"stream_options", {{"include_usage", true}}}};
    for (const auto& tool : request.tools)
        body["tools"].push_back({{"type", "function"},
                                 {"function",
                                  {{"name", tool.name},
                                   {"description", tool.description},
                                   {"parameters", json::parse(tool.parameters)}}}});
    return dump_json(body);
}

std::unique_ptr<Decoder> ChatCompletionsCodec::decoder() const {
    return std::make_unique<ChatDecoder>();
}

std::vector<std::pair<std::string, std::string>> ChatCompletionsCodec::headers(
    const std::string& key) const {
    if (key.empty()) return {};
    return {{"Authorization", "Bearer " + key}};
}

}  // namespace providers
