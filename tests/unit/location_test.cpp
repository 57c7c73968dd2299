#include "api/workspaces/location.h"

#include <catch2/catch.hpp>

using workspaces::Location;
using workspaces::parse_location;

TEST_CASE("one folder has one text") {
    struct Row {
        std::string text, canonical;
    };
    const std::vector<Row> rows{
        {"/a/b", "/a/b"},
        {"/", "/"},
        {"//a//b/", "/a/b"},
        {"/a/./b/../c/.", "/a/c"},
        {"/../..", "/"},
        {"~", "~"},
        {"~/", "~"},
        {"~/x/", "~/x"},
        {"~/x/../y", "~/y"},
        {"host:/a//b/", "host:/a/b"},
        {"host:~", "host:~"},
        {"host:~/x/.", "host:~/x"},
        {"me@host.example:/a", "me@host.example:/a"},
        {"[::1]:/x", "[::1]:/x"},
        {"me@[fe80::1%eth0]:/x", "me@[fe80::1%eth0]:/x"},
        {"/with:colon", "/with:colon"},
        {"h:/tmp/a; touch M", "h:/tmp/a; touch M"},
        {"h:/tmp/$(touch M)`x`'\"\\\n!", "h:/tmp/$(touch M)`x`'\"\\\n!"},
        {"h:/a:b", "h:/a:b"},
        {"h:/[x]:/y", "h:/[x]:/y"},
        {"h:/\xff", "h:/\xff"},
        {"a:/b/...", "a:/b/..."},
        {"C:/x", "C:/x"},
    };
    for (const auto& row : rows) {
        CAPTURE(row.text);
        const auto location = parse_location(row.text);
        REQUIRE(location.ok());
        CHECK(location->text() == row.canonical);
        CHECK(*parse_location(location->text()) == *location);
    }
}

TEST_CASE("what is no location is refused with its cause") {
    struct Row {
        std::string text, cause;
    };
    const std::vector<Row> rows{
        {"", "must be absolute"},          {"relative", "must be absolute"},
        {"a/b:c", "must be absolute"},     {"./x", "must be absolute"},
        {"~user/x", "must be absolute"},   {"h:relative", "must be absolute"},
        {"h:", "must be absolute"},        {"h:~user/x", "must be absolute"},
        {"C:\\x", "must be absolute"},     {"~/../x", "must not lead out"},
        {":/x", "not a valid host"},       {"-oProxyCommand=touch M@h:/x", "not a valid user"},
        {"-W:/x", "not a valid host"},     {"h -W:/x", "not a valid host"},
        {"h\n:/x", "not a valid host"},    {"h;x:/x", "not a valid host"},
        {"$(x):/x", "not a valid host"},   {"user@:/x", "not a valid host"},
        {"@h:/x", "not a valid user"},     {"a b@h:/x", "not a valid user"},
        {"a@b@h:/x", "not a valid user"},  {"u\x01@h:/x", "not a valid user"},
        {"[zz]:/x", "not a valid host"},   {"[-o]:/x", "not a valid host"},
        {"[::1]x:/x", "not a valid host"}, {std::string("h:/a\0b", 6), "NUL"},
        {std::string("/a\0b", 4), "NUL"},  {"/" + std::string(4096, 'a'), "4096"},
    };
    for (const auto& row : rows) {
        CAPTURE(row.text);
        const auto location = parse_location(row.text);
        REQUIRE_FALSE(location.ok());
        CHECK(location.error().code == shared::ErrorCode::invalid);
        CHECK(location.error().message.find(row.cause) != std::string::npos);
        CHECK(location.error().message.find('\n') == std::string::npos);
    }
}

TEST_CASE("parts, homes, labels and slugs") {
    const auto remote = *parse_location("me@box:~/proj");
    CHECK(remote.target() == "me@box");
    CHECK(remote.prefix() == "me@box:");
    CHECK(remote.label() == "me@box");
    CHECK(remote.label(false) == "box");
    CHECK(resolve(remote, "/home/me/").text() == "me@box:/home/me/proj");
    CHECK(resolve(*parse_location("box:~"), "/root").text() == "box:/root");
    CHECK(resolve(*parse_location("/abs"), "/root").text() == "/abs");
    CHECK(parse_location("/x")->target() == "local");
    CHECK(parse_location("/x")->prefix().empty());
    CHECK(workspaces::slug("fakehost:/tmp/a/proj") == "fakehost--tmp-a-proj");
    CHECK(workspaces::slug("/\xc3\xa9_") == "----");
    CHECK(workspaces::check_target("me@box").ok());
    CHECK(workspaces::check_target("::1").ok());
    for (const char* bad : {"", "-x", "a b", "me@", "@x", "a/b", "a*", "x\n"})
        CHECK_FALSE(workspaces::check_target(bad).ok());
}
