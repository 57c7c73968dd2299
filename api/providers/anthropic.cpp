#include "api/providers/anthropic.h"

#include "api/providers/provider_json.h"

namespace providers {
namespace {

using nlohmann::json;

class Messages {
  public:
    void operator()(const UserItem& item) { add_text("user", item.text); }
    void operator()(const AssistantItem& item) { add_text("assistant", item.text); }
    void operator()(const ToolCallItem& item) {
        auto input = parse_json(item.arguments);
        if (!input || !input->is_object()) input = json{{"arguments", item.arguments}};
        add("assistant", {{"type", "tool_use"},
                          {"id", item.call_id},
                          {"name", item.name},
                          {"input", std::move(*input)}});
    }
    void operator()(const ToolResultItem& item) {
        add("user",
            {{"type", "tool_result"}, {"tool_use_id", item.call_id}, {"content", item.output}});
    }
    json take() { return std::move(messages_); }

  private:
    void add_text(const char* role, const std::string& text) {
        if (!text.empty()) add(role, {{"type", "text"}, {"text", text}});
    }
    void add(const std::string& role, json block) {
        if (messages_.empty() && role != "user")
            add("user", {{"type", "text"}, {"text", "(continued)"}});
        if (messages_.empty() || messages_.back()["role"] != role)
            messages_.push_back({{"role", role}, {"content", json::array()}});
        messages_.back()["content"].push_back(std::move(block));
    }
    json messages_ = json::array();
};

class AnthropicDecoder : public Decoder {
    void read(std::string_view, std::string_view data) override {
        const auto payload = parse_json(data);
        if (!payload || !payload->is_object())
            return fail("", "the stream holds what is not JSON", true);
        const auto type = text_of(*payload, "type");
        const auto key = std::to_string(number_of(*payload, "index", -1));
        if (type == "message_start") {
            usage_.input_tokens =
                number_of(member_of(member_of(*payload, "message"), "usage"), "input_tokens");
        } else if (type == "content_block_start") {
            const auto& block = member_of(*payload, "content_block");
            const auto kind = text_of(block, "type");
            if (kind == "tool_use") call(key, text_of(block, "id"), text_of(block, "name"));
            if (kind == "text") text(text_of(block, "text"));
        } else if (type == "content_block_delta") {
            const auto& delta = member_of(*payload, "delta");
            text(text_of(delta, "text"));
            reasoning(text_of(delta, "thinking"));
            if (const auto piece = text_of(delta, "partial_json"); !piece.empty())
                call_arguments(call(key, "", ""), piece);
        } else if (type == "message_delta") {
            stop_ = text_of(member_of(*payload, "delta"), "stop_reason");
            usage_.output_tokens = number_of(member_of(*payload, "usage"), "output_tokens");
        } else if (type == "message_stop") {
            emit(usage_);
            complete(stop_ == "end_turn"     ? "stop"
                     : stop_ == "tool_use"   ? "tool_calls"
                     : stop_ == "max_tokens" ? "length"
                                             : stop_);
        } else if (type == "error") {
            const auto& error = member_of(*payload, "error");
            const auto code = text_of(error, "type");
            fail(code, text_of(error, "message"), is_passing_trouble(code));
        }
    }

    Usage usage_;
    std::string stop_;
};

}  // namespace

std::string AnthropicCodec::encode(const ModelRequest& request) const {
    Messages messages;
    for (const auto& item : request.items) std::visit(messages, item);
    json body = {{"model", request.model},
                 {"system", request.instructions},
                 {"messages", messages.take()},
                 {"max_tokens", kAnthropicMaxTokens},
                 {"stream", true}};
    for (const auto& tool : request.tools)
        body["tools"].push_back({{"name", tool.name},
                                 {"description", tool.description},
                                 {"input_schema", json::parse(tool.parameters)}});
    return dump_json(body);
}

std::unique_ptr<Decoder> AnthropicCodec::decoder() const {
    return std::make_unique<AnthropicDecoder>();
}

std::vector<std::pair<std::string, std::string>> AnthropicCodec::headers(
    const std::string& key) const {
    std::vector<std::pair<std::string, std::string>> headers = {
        {"anthropic-version", "2023-06-01"}};
    if (!key.empty()) headers.emplace_back("x-api-key", key);
    return headers;
}

}  // namespace providers
