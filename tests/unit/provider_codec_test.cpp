// The codecs: requests against each protocol's rules, streams whole, in single bytes, and broken.
#include <catch2/catch.hpp>

#include "api/providers/anthropic.h"
#include "api/providers/chat_completions.h"
#include "api/providers/provider_json.h"
#include "api/providers/python_tool.h"
#include "api/providers/responses.h"
#include "api/providers/sse_parser.h"

using namespace providers;

namespace {

/// All of an answer, as one line of text per kind.
std::string summary(const Codec& codec, const std::string& stream, std::size_t piece) {
    SseParser parser;
    auto decoder = codec.decoder();
    std::string text, reasoning, calls, arguments, end;
    auto take = [&](const std::vector<ModelEvent>& events) {
        for (const auto& event : events) {
            if (auto* delta = std::get_if<TextDelta>(&event)) text += delta->text;
            if (auto* part = std::get_if<ReasoningDelta>(&event)) reasoning += part->text;
            if (auto* started = std::get_if<ToolCallStarted>(&event))
                calls += "+" + std::to_string(started->index);
            if (auto* delta = std::get_if<ToolCallArguments>(&event)) arguments += delta->delta;
            if (auto* call = std::get_if<ToolCallDone>(&event))
                calls += " " + call->call_id + ":" + call->name + call->arguments;
            if (auto* usage = std::get_if<Usage>(&event))
                end += std::to_string(usage->input_tokens) + "/" +
                       std::to_string(usage->output_tokens) + " ";
            if (auto* completed = std::get_if<Completed>(&event)) end += completed->stop;
            if (auto* error = std::get_if<StreamError>(&event))
                end += (error->retryable ? "retry: " : "error: ") + error->message;
        }
    };
    for (std::size_t at = 0; at < stream.size(); at += piece) {
        auto events = parser.feed(std::string_view(stream).substr(at, piece));
        REQUIRE(events.ok());
        for (const auto& event : *events) take(decoder->feed(event.name, event.data));
    }
    take(decoder->end());
    return text + "|" + reasoning + "|" + calls + "|" + end;
}

std::string data(std::initializer_list<const char*> payloads) {
    std::string stream;
    for (const char* payload : payloads) stream += "data: " + std::string(payload) + "\n\n";
    return stream;
}

struct Row {
    const char* what;
    std::string stream;
    std::string expected;
};

void check(const Codec& codec, const std::vector<Row>& rows) {
    for (const auto& row : rows) {
        INFO(row.what);
        CHECK(summary(codec, row.stream, row.stream.size() + 1) == row.expected);
        CHECK(summary(codec, row.stream, 1) == row.expected);
    }
}

ModelRequest conversation() {
    ModelRequest request;
    request.model = "m";
    request.instructions = "be brief";
    request.tools = {python_tool()};
    request.items = {UserItem{"first"},
                     AssistantItem{"looking"},
                     ToolCallItem{"a", "python", R"({"code":"1"})"},
                     ToolCallItem{"b", "python", "not json"},
                     ToolResultItem{"a", R"({"status":"ok"})"},
                     ToolResultItem{"b", "bad \xff byte"},
                     UserItem{"second"}};
    return request;
}

}  // namespace

TEST_CASE("responses: streams") {
    check(
        ResponsesCodec(),
        {{"text and usage",
          data(
              {R"({"type":"response.created","response":{}})",
               R"({"type":"response.output_text.delta","output_index":0,"delta":"hé"})",
               R"({"type":"response.output_text.delta","output_index":0,"delta":"llo"})",
               R"({"type":"response.completed","response":{"output":[{"type":"message","content":[{"type":"output_text","text":"héllo"}]}],"usage":{"input_tokens":3,"output_tokens":2}}})"}),
          "héllo|||3/2 stop"},
         {"a call whose name comes only at the end",
          data(
              {R"({"type":"response.function_call_arguments.delta","output_index":0,"item_id":"f","delta":"{\"code\":"})",
               R"({"type":"response.function_call_arguments.delta","output_index":0,"item_id":"f","delta":"\"1\"}"})",
               R"({"type":"response.completed","response":{"output":[{"type":"function_call","id":"f","call_id":"c","name":"python","arguments":"{\"code\":\"1\"}"}]}})"}),
          R"(||+0 c:python{"code":"1"}|tool_calls)"},
         {"the same without places",
          data(
              {R"({"type":"response.function_call_arguments.delta","item_id":"f","delta":"{}"})",
               R"({"type":"response.completed","response":{"output":[{"type":"function_call","id":"f","call_id":"c","name":"python","arguments":"{}"}]}})"}),
          "||+0 c:python{}|tool_calls"},
         {"reasoning, then two calls",
          data(
              {R"({"type":"response.reasoning_summary_text.delta","output_index":0,"delta":"hm"})",
               R"({"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","call_id":"x","name":"python"}})",
               R"({"type":"response.function_call_arguments.delta","output_index":1,"delta":"{}"})",
               R"({"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","call_id":"x","name":"python","arguments":"{}"}})",
               R"({"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","call_id":"y","name":"python","arguments":"[]"}})",
               R"({"type":"response.completed","response":{}})"}),
          "|hm|+0 x:python{}+1 y:python[]|tool_calls"},
         {"text that came only whole",
          data(
              {R"({"type":"response.completed","response":{"output":[{"type":"message","content":[{"type":"output_text","text":"all"}]}]}})"}),
          "all|||stop"},
         {"cut short by its length",
          data(
              {R"({"type":"response.output_text.delta","delta":"a"})",
               R"({"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"}}})"}),
          "a|||length"},
         {"failed",
          data(
              {R"({"type":"response.failed","response":{"error":{"code":"server_error","message":"sorry"}}})"}),
          "|||retry: sorry"},
         {"error", data({R"({"type":"error","code":"invalid_prompt","message":"no"})"}),
          "|||error: no"},
         {"ends early", data({R"({"type":"response.output_text.delta","delta":"a"})"}),
          "a|||retry: the stream ended before the answer was whole"},
         {"not JSON", data({"{"}), "|||retry: the stream holds what is not JSON"},
         {"wrong types are no crash",
          data({R"({"type":7})", R"({"type":"response.output_text.delta","delta":[1]})",
                R"({"type":"response.output_item.added","item":"x"})",
                R"({"type":"response.completed","response":{"output":{"a":1},"usage":[]}})"}),
          "|||stop"}});
}

TEST_CASE("chat completions: streams") {
    check(
        ChatCompletionsCodec(),
        {{"text",
          data({R"({"choices":[{"delta":{"role":"assistant","content":""}}]})",
                R"({"choices":[{"delta":{"content":"hi"}}]})",
                R"({"choices":[{"delta":{},"finish_reason":"stop"}]})",
                R"({"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1}})", "[DONE]"}),
          "hi|||3/1 stop"},
         {"parallel calls in pieces",
          data(
              {R"({"choices":[{"delta":{"reasoning_content":"hm","tool_calls":[{"index":0,"id":"a","function":{"name":"python","arguments":""}}]}}]})",
               R"({"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"code\""}}]}}]})",
               R"({"choices":[{"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"python","arguments":"{}"}}]}}]})",
               R"({"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":":\"1\"}"}}]}}]})",
               R"({"choices":[{"delta":{},"finish_reason":"tool_calls"}]})", "[DONE]"}),
          R"(|hm|+0+1 a:python{"code":"1"} b:python{}|tool_calls)"},
         {"calls without places",
          data(
              {R"({"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"python","arguments":"{"}}]}}]})",
               R"({"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"}"}}]}}]})",
               R"({"choices":[{"delta":{"tool_calls":[{"id":"b","function":{"name":"python","arguments":"{}"}}]}}]})",
               "[DONE]"}),
          "||+0+1 a:python{} b:python{}|tool_calls"},
         {"no [DONE]", data({R"({"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]})"}),
          "a|||stop"},
         {"ends early", data({R"({"choices":[{"delta":{"content":"a"}}]})"}),
          "a|||retry: the stream ended before the answer was whole"},
         {"an error inside", data({R"({"error":{"code":429,"message":"slow down"}})"}),
          "|||retry: slow down"},
         {"a call without a name",
          data(
              {R"({"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{}"}}]}}]})",
               "[DONE]"}),
          "|||error: the answer holds a tool call without a name"}});
}

TEST_CASE("anthropic: streams") {
    check(
        AnthropicCodec(),
        {{"thinking, text and a call",
          data(
              {R"({"type":"message_start","message":{"usage":{"input_tokens":9}}})",
               R"({"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}})",
               R"({"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}})",
               R"({"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"so"}})",
               R"({"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t","name":"python","input":{}}})",
               R"({"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"code\":"}})",
               R"({"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"\"1\"}"}})",
               R"({"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":4}})",
               R"({"type":"message_stop"})"}),
          R"(so|hm|+0 t:python{"code":"1"}|9/4 tool_calls)"},
         {"overloaded",
          data({R"({"type":"error","error":{"type":"overloaded_error","message":"busy"}})"}),
          "|||retry: busy"},
         {"ends early", data({R"({"type":"message_start","message":{}})"}),
          "|||retry: the stream ended before the answer was whole"}});
}

TEST_CASE("streams stay within their bounds") {
    auto decoder = ResponsesCodec().decoder();
    const std::string piece(1 << 20, 'x');
    std::string seen;
    for (int count = 0; count < 4 && seen.empty(); ++count)
        for (const auto& event : decoder->feed(
                 "",
                 R"({"type":"response.function_call_arguments.delta","output_index":0,"delta":")" +
                     piece + "\"}"))
            if (auto* error = std::get_if<StreamError>(&event)) seen = error->message;
    CHECK(seen == "a tool call's arguments are too long");

    auto many = ChatCompletionsCodec().decoder();
    seen.clear();
    for (int count = 0; count < 100 && seen.empty(); ++count)
        for (const auto& event : many->feed(
                 "", R"({"choices":[{"delta":{"tool_calls":[{"index":)" + std::to_string(count) +
                         R"(,"id":"a","function":{"name":"python"}}]}}]})"))
            if (auto* error = std::get_if<StreamError>(&event)) seen = error->message;
    CHECK(seen == "the answer holds too many tool calls");

    std::string deep = R"({"type":"response.output_text.delta","delta":)";
    for (int level = 0; level < 100000; ++level) deep += '[';
    CHECK_FALSE(parse_json(deep).has_value());
}

TEST_CASE("responses: the request") {
    const auto body = *parse_json(ResponsesCodec().encode(conversation()));
    CHECK(body["instructions"] == "be brief");
    CHECK(body["stream"] == true);
    CHECK(body["input"].size() == 7);
    CHECK(body["input"].back()["role"] == "user");
    CHECK(body["input"][2]["type"] == "function_call");
    CHECK(body["input"][4]["type"] == "function_call_output");
    CHECK(body["input"][4]["call_id"] == "a");
    CHECK(body["tools"][0]["name"] == "python");
    CHECK(body["tools"][0]["parameters"]["properties"].contains("timeout_ms"));
}

TEST_CASE("chat completions: the request") {
    const auto body = *parse_json(ChatCompletionsCodec().encode(conversation()));
    const auto& messages = body["messages"];
    REQUIRE(messages.size() == 6);  // system, user, assistant with both calls, two answers, user
    CHECK(messages[0]["role"] == "system");
    CHECK(messages[2]["content"] == "looking");
    CHECK(messages[2]["tool_calls"].size() == 2);
    CHECK(messages[3]["tool_call_id"] == "a");
    CHECK(messages[5]["role"] == "user");
}

TEST_CASE("anthropic: the request") {
    const auto body = *parse_json(AnthropicCodec().encode(conversation()));
    const auto& messages = body["messages"];
    REQUIRE(messages.size() == 3);  // results and the next user text are one message
    CHECK(messages[1]["content"].size() == 3);
    CHECK(messages[1]["content"][2]["input"]["arguments"] == "not json");
    CHECK(messages[2]["content"].size() == 3);
    CHECK(messages[2]["content"][2]["text"] == "second");
    CHECK(body["system"] == "be brief");
    CHECK(body["max_tokens"].is_number_integer());
}

TEST_CASE("server-sent events in all line ends and pieces") {
    const std::string stream =
        "\xEF\xBB\xBF: hello\r\nevent: a\rdata: 1\r\rdata:2\ndata: 3\n\ndata\n\nid: 9\n\nevent: "
        "b\r\n"
        "data: 4\r\n\r\ndata: cut off";
    for (std::size_t piece : {1, 2, 3, 7, 1000}) {
        SseParser parser;
        std::string seen;
        for (std::size_t at = 0; at < stream.size(); at += piece) {
            const auto events = parser.feed(std::string_view(stream).substr(at, piece));
            for (const auto& event : *events) seen += event.name + "=" + event.data + ";";
        }
        CHECK(seen == "a=1;=2\n3;=;b=4;");
    }
    SseParser bounded(10);
    CHECK(bounded.feed("data: 12\n\n").ok());
    CHECK_FALSE(bounded.feed("data: 1234567890").ok());
    CHECK_FALSE(bounded.feed("\n\n").ok());
}

TEST_CASE("the python tool's arguments") {
    CHECK(parse_python_call("python", R"({"code":"1","timeout_ms":5})")->timeout_ms == 5);
    CHECK(parse_python_call("python", R"({"code":"1"})")->timeout_ms == kDefaultCellTimeoutMs);
    CHECK(parse_python_call("python", R"({"code":"1","timeout_ms":1e300})")->timeout_ms ==
          kMaxCellTimeoutMs);
    for (const char* bad : {"", "[]", "{", R"({"code":1})", R"({"code":"1","timeout_ms":"2"})"})
        CHECK_FALSE(parse_python_call("python", bad).ok());
    CHECK_FALSE(parse_python_call("bash", R"({"code":"1"})").ok());
}
