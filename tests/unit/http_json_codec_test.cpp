#include <catch2/catch.hpp>

#include "api/http/errors.h"
#include "api/http/json_codec.h"

using http::Fields;
using http::Json;
using http::parse_json;

TEST_CASE("odd documents are refused with a reason, none is changed in silence") {
    struct Row {
        std::string text;
        std::string reason;
    };
    const std::string nul("\0", 1);
    const std::vector<Row> rows{
        {"", "empty"},
        {nul, "NUL"},
        {"{\"a\":1}" + nul, "NUL"},
        {"\xef\xbb\xbf{}", "byte order mark"},
        {std::string("\xff\xfe{\0}\0", 6), "NUL"},
        {"{} {}", "byte 4"},
        {"{}x", "byte 3"},
        {"{\"a\":1,\"a\":2}", "\"a\" stands twice"},
        {"{\"b\":{\"a\":1,\"a\":1}}", "\"a\" stands twice"},
        {"1e999", "out of range"},
        {"-1e999", "out of range"},
        {"18446744073709551616", "64 bits"},
        {"-9223372036854775809", "64 bits"},
        {"NaN", "byte"},
        {"Infinity", "byte"},
        {"\"\xff\"", "byte"},
        {"\"\xc3\x28\"", "byte"},
        {"\"\xed\xa0\x80\"", "byte"},
        {"\"\\ud800\"", "byte"},
        {"{\"a\"", "byte"},
        {"[1,]", "byte"},
        {"'a'", "byte"},
    };
    for (const auto& row : rows) {
        CAPTURE(row.text);
        const auto parsed = parse_json(row.text);
        REQUIRE_FALSE(parsed.ok());
        CHECK(parsed.error().code == shared::ErrorCode::invalid);
        CHECK(parsed.error().message.find(row.reason) != std::string::npos);
        // The reason itself must be fit to be sent.
        CHECK_NOTHROW(http::error_response(parsed.error()).body);
    }
}

TEST_CASE("plain documents come through as they are") {
    for (const std::string text :
         {"{}", "[]", "null", "-0.5", "18446744073709551615", "-9223372036854775808",
          "[[],{\"a\":[1,2,{\"b\":null}]},\"\xc3\xa9\",true]", "\"a\\u0000b\""}) {
        CAPTURE(text);
        const auto parsed = parse_json(text);
        REQUIRE(parsed.ok());
        CHECK(*parsed == Json::parse(text));
    }
    CHECK((*parse_json(" {\"a\" : 1}\n"))["a"] == 1);
}

TEST_CASE("depth has a limit on both sides of which nothing breaks") {
    const auto nested = [](std::size_t levels) {
        return std::string(levels, '[') + std::string(levels, ']');
    };
    CHECK(parse_json(nested(http::kMaxJsonDepth)).ok());
    CHECK_FALSE(parse_json(nested(http::kMaxJsonDepth + 1)).ok());
    CHECK_FALSE(parse_json(std::string(200'000, '[')).ok());
    CHECK_FALSE(parse_json(std::string(200'000, '{')).ok());
}

TEST_CASE("writing never throws") {
    CHECK(http::dump_json({{"a", "x\xff"}}) == "{\"a\":\"x\xef\xbf\xbd\"}");
    CHECK(http::dump_json({{"a", std::numeric_limits<double>::quiet_NaN()}}) == "{\"a\":null}");
}

TEST_CASE("fields are read by name, and the first failure stays") {
    Fields fields(
        R"({"code":"1+1","timeout_ms":5,"wait":true,"image":{"width":3},"nothing":null})");
    CHECK(fields.text("code") == "1+1");
    CHECK(fields.optional_integer("timeout_ms", 1, 10) == 5);
    CHECK(fields.boolean_or("wait", false));
    CHECK_FALSE(fields.optional_text("nothing").has_value());
    const auto image = fields.optional_object("image");
    REQUIRE(image);
    CHECK(fields.finish().ok());
    Fields inner(*image, "image");
    CHECK(inner.integer("width", 1, 2) == 0);
    CHECK(inner.finish().error().message == "image.width must be between 1 and 2");
}

TEST_CASE("fields of a wrong kind are refused by name") {
    struct Row {
        std::string body;
        std::string message;
    };
    for (const Row& row : std::vector<Row>{
             {"[]", "the body must be a JSON object"},
             {"{}", "id is missing"},
             {R"({"id":null})", "id is missing"},
             {R"({"id":true})", "id must be a whole number"},
             {R"({"id":1.0})", "id must be a whole number"},
             {R"({"id":"1"})", "id must be a whole number"},
             {R"({"id":18446744073709551615})", "id must be between 0 and 9223372036854775807"},
             {R"({"id":1,"more":2})", "unknown field more"}}) {
        CAPTURE(row.body);
        Fields fields(row.body);
        (void)fields.integer("id", 0, INT64_MAX);
        CHECK(fields.finish().error().message == row.message);
    }
    Fields text(R"({"a":1,"b":"longer"})");
    (void)text.text("a");
    (void)text.text("b", 3);
    CHECK(text.finish().error().message == "a must be a text");
}
