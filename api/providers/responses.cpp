#include "api/providers/responses.h"

#include "api/providers/provider_json.h"

namespace providers {
namespace {

using nlohmann::json;

struct InputItem {
    json operator()(const UserItem& item) const {
        return {{"type", "message"},
                {"role", "user"},
                {"content", json::array({{{"type", "input_text"}, {"text", item.text}}})}};
    }
    json operator()(const AssistantItem& item) const {
        return {{"type", "message"},
                {"role", "assistant"},
                {"content", json::array({{{"type", "output_text"}, {"text", item.text}}})}};
    }
    json operator()(const ToolCallItem& item) const {
        return {{"type", "function_call"},
                {"call_id", item.call_id},
                {"name", item.name},
                {"arguments", item.arguments}};
    }
    json operator()(const ToolResultItem& item) const {
        return {
            {"type", "function_call_output"}, {"call_id", item.call_id}, {"output", item.output}};
    }
};

class ResponsesDecoder : public Decoder {
    void read(std::string_view, std::string_view data) override {
        if (data == "[DONE]") return;
        const auto payload = parse_json(data);
        if (!payload || !payload->is_object())
            return fail("", "the stream holds what is not JSON", true);
        const auto type = text_of(*payload, "type");
        if (type == "response.output_text.delta" || type == "response.refusal.delta") {
            text(text_of(*payload, "delta"));
        } else if (type == "response.reasoning_summary_text.delta" ||
                   type == "response.reasoning_text.delta") {
            reasoning(text_of(*payload, "delta"));
        } else if (type == "response.function_call_arguments.delta") {
            call_arguments(call(key_of(*payload), "", ""), text_of(*payload, "delta"));
        } else if (type == "response.output_item.added") {
            started(member_of(*payload, "item"), key_of(*payload));
        } else if (type == "response.output_item.done") {
            const auto& item = member_of(*payload, "item");
            call_done(started(item, key_of(*payload)), text_of(item, "arguments"));
        } else if (type == "response.completed" || type == "response.incomplete") {
            whole(member_of(*payload, "response"), type == "response.incomplete");
        } else if (type == "response.failed") {
            error(member_of(member_of(*payload, "response"), "error"));
        } else if (type == "error") {
            const auto& nested = member_of(*payload, "error");
            error(nested.is_object() ? nested : *payload);
        }
    }

    // Items are known by place; the id stands in where a server gives no place.
    std::string key_of(const json& payload) {
        const auto place = number_of(payload, "output_index", -1);
        if (place >= 0) return std::to_string(place);
        by_id_ = true;
        const auto id = text_of(payload, "item_id");
        return id.empty() ? text_of(member_of(payload, "item"), "id") : id;
    }

    int started(const json& item, const std::string& key) {
        if (text_of(item, "type") != "function_call") return -1;
        return call(key, text_of(item, "call_id"), text_of(item, "name"));
    }

    // What the whole answer holds and the pieces did not say is made up for here.
    void whole(const json& response, bool incomplete) {
        const auto& output = member_of(response, "output");
        const bool had_text = has_text();
        std::size_t place = 0;
        if (output.is_array()) {
            for (const auto& item : output) {
                const auto key = by_id_ ? text_of(item, "id") : std::to_string(place);
                call_done(started(item, key), text_of(item, "arguments"));
                if (!had_text && text_of(item, "type") == "message") {
                    for (const auto& part : member_of(item, "content")) text(text_of(part, "text"));
                }
                ++place;
            }
        }
        const auto& usage = member_of(response, "usage");
        if (usage.is_object())
            emit(Usage{number_of(usage, "input_tokens"), number_of(usage, "output_tokens")});
        const auto reason = text_of(member_of(response, "incomplete_details"), "reason");
        complete(!incomplete ? "" : reason == "max_output_tokens" ? "length" : reason);
    }

    void error(const json& error) {
        const auto code = text_of(error, "code");
        const auto message = text_of(error, "message");
        fail(code, message.empty() ? "the provider reports an error" : message,
             is_passing_trouble(code) || is_passing_trouble(text_of(error, "type")));
    }

    bool by_id_ = false;
};

}  // namespace

std::string ResponsesCodec::encode(const ModelRequest& request) const {
    json input = json::array();
    for (const auto& item : request.items) input.push_back(std::visit(InputItem{}, item));
    json tools = json::array();
    for (const auto& tool : request.tools)
        tools.push_back({{"type", "function"},
                         {"name", tool.name},
                         {"description", tool.description},
                         {"parameters", json::parse(tool.parameters)},
                         {"strict", false}});
    return dump_json({{"model", request.model},
                      {"instructions", request.instructions},
                      {"input", std::move(input)},
                      {"tools", std::move(tools)},
                      {"stream", true},
                      {"store", false}});
}

std::unique_ptr<Decoder> ResponsesCodec::decoder() const {
    return std::make_unique<ResponsesDecoder>();
}

std::vector<std::pair<std::string, std::string>> ResponsesCodec::headers(
    const std::string& key) const {
    if (key.empty()) return {};
    return {{"Authorization", "Bearer " + key}};
}

}  // namespace providers
