// The CLI's pure parts: text for a terminal, event streams, workspaces, errors of answers.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "cli/client.h"
#include "cli/exit_codes.h"
#include "cli/sessions.h"
#include "cli/sse.h"
#include "cli/terminal.h"

using namespace cli;
using namespace std::string_literals;

TEST_CASE("control characters of a host never reach the terminal") {
    struct Row {
        std::string text, shown;
    };
    const std::vector<Row> rows{
        {"plain text", "plain text"},
        {"\x1b]0;title\x07", "\\x1b]0;title\\x07"},
        {"a\nb\tc\rd", "a\\nb\\tc\\rd"},
        {"nul\0end"s, "nul\\x00end"},
        {"\x7f", "\\x7f"},
        {"grün → 漢字 🙂", "grün → 漢字 🙂"},
        {"\xc2\x9b"
         "31m",
         "\\xc2\\x9b31m"},  // C1 control sequence introducer
        {"\xe2\x80\xae"
         "txt.exe",
         "\\xe2\\x80\\xaetxt.exe"},                    // right-to-left override
        {"\xff\xfe", "\\xff\\xfe"},                    // not UTF-8
        {"\xc0\xaf", "\\xc0\\xaf"},                    // overlong
        {"\xed\xa0\x80", "\\xed\\xa0\\x80"},           // surrogate
        {"cut \xe6\xbc", "cut \\xe6\\xbc"},            // ends within a character
        {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},  // past the last character
    };
    for (const auto& row : rows) {
        INFO(row.shown);
        CHECK(visible(row.text) == row.shown);
    }
    CHECK(visible("two\nlines\x1b", Lines::keep) == "two\nlines\\x1b");
}

TEST_CASE("a table's columns are as wide as their widest cell in characters") {
    CHECK(table({{"HOST", "STATE"}, {"grün", "ready"}, {"x", "a\nb"}}) ==
          "HOST  STATE\n"
          "grün  ready\n"
          "x     a\\nb\n");
}

TEST_CASE("durations in one unit") {
    CHECK(duration_text(-5) == "0 s");
    CHECK(duration_text(119'999) == "119 s");
    CHECK(duration_text(120'000) == "2 min");
    CHECK(duration_text(2 * 3600'000) == "2 h");
    CHECK(duration_text(48 * 3600'000LL) == "2 d");
}

TEST_CASE("an event stream reads alike in pieces of any size") {
    const std::string stream =
        ": keep-alive\n\n"
        "id: 5\nevent: output\ndata: {\"a\":1}\n\n"
        "event: output\r\ndata:first\r\ndata: second\r\n\r\n"
        "unknown: x\nid\n\n"
        "data\n\n"
        "data: never ended\n";
    for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
        SseParser parser;
        std::vector<SseEvent> events;
        for (std::size_t at = 0; at < stream.size(); at += piece) {
            REQUIRE(parser.feed(std::string_view(stream).substr(at, piece), [&](const SseEvent& e) {
                events.push_back(e);
                return true;
            }));
        }
        REQUIRE(events.size() == 3);
        CHECK(events[0].name == "output");
        CHECK(events[0].data == "{\"a\":1}");
        CHECK(events[0].id == "5");
        CHECK(events[1].data == "first\nsecond");
        CHECK(events[1].id == "5");
        CHECK(events[2].name == "message");
        CHECK(events[2].data.empty());
        CHECK(events[2].id.empty());
    }
}

TEST_CASE("an event stream stops when told, and at an event without end") {
    SseParser parser;
    int seen = 0;
    CHECK_FALSE(parser.feed("data: 1\n\ndata: 2\n\n", [&](const SseEvent&) {
        ++seen;
        return false;
    }));
    CHECK(seen == 1);

    SseParser endless;
    const std::string piece(1 << 20, 'x');
    auto never = [](const SseEvent&) { return true; };
    bool taken = true;
    std::size_t fed = 0;
    for (; taken && fed < 2 * SseParser::kMaxEventBytes; fed += piece.size()) {
        taken = endless.feed(piece, never);
    }
    CHECK_FALSE(taken);
    CHECK(fed <= SseParser::kMaxEventBytes + piece.size());
}

TEST_CASE("what a person types becomes one workspace") {
    setenv("HOME", "/home/ada", 1);
    struct Row {
        std::string typed, workspace, host;
    };
    const std::vector<Row> rows{
        {".", "/cur", "local"},
        {"sub/", "/cur/sub", "local"},
        {"..", "/", "local"},
        {"/a//b/./c/../d/", "/a/b/d", "local"},
        {"/", "/", "local"},
        {"~", "/home/ada", "local"},
        {"~/x", "/home/ada/x", "local"},
        {"./odd:name", "/cur/odd:name", "local"},
        {"sub/odd:name", "/cur/sub/odd:name", "local"},
        {"gpu:/data", "gpu:/data", "gpu"},
        {"ada@gpu:~/x", "ada@gpu:~/x", "ada@gpu"},
        {"[::1]:/data", "[::1]:/data", "[::1]"},
    };
    for (const auto& row : rows) {
        INFO(row.typed);
        CHECK(workspace_of(row.typed, "/cur") == row.workspace);
        CHECK(host_of(row.workspace) == row.host);
    }
}

TEST_CASE("a host in a path is one segment, whatever it holds") {
    CHECK(path_segment("ada@[::1]/../x?y#z") == "ada%40%5B%3A%3A1%5D%2F..%2Fx%3Fy%23z");
    CHECK(path_segment("a\0b"s) == "a%00b");
}

TEST_CASE("an answer's error names its kind, its words and its host") {
    auto error = error_of_answer(
        503, R"({"error": "Permission denied", "host": "gpu", "state": "needs_auth"})");
    CHECK(error.code == shared::ErrorCode::needs_auth);
    CHECK(error.message == "Permission denied");
    CHECK(error.host == "gpu");
    CHECK(exit_code(error) == kHostNotReady);

    CHECK(error_of_answer(404, "<html>").code == shared::ErrorCode::not_found);
    CHECK(error_of_answer(404, "<html>").message == "the daemon answered 404");
    CHECK(error_of_answer(503, R"({"error": 5})").code == shared::ErrorCode::overloaded);
    CHECK(error_of_answer(500, "[1]").code == shared::ErrorCode::failed);
    CHECK(exit_code(error_of_answer(400, "{}")) == kFailed);
    CHECK(exit_code({shared::ErrorCode::unavailable, "", ""}) == kNoDaemon);
}
