#include <catch2/catch.hpp>
#include <set>

#include "shared/ids.h"

using shared::Uuid;

TEST_CASE("ids of one process are strictly increasing, of version 7, and say when") {
    const auto before = std::chrono::system_clock::now() - std::chrono::milliseconds(1);
    Uuid last;
    for (int i = 0; i < 20'000; ++i) {  // more than one millisecond's counter holds
        const Uuid next = Uuid::make_v7();
        REQUIRE(last < next);
        REQUIRE(next.version() == 7);
        REQUIRE((next.bytes[8] & 0xc0) == 0x80);
        last = next;
    }
    CHECK(last.made_at() >= before);
    CHECK(last.made_at() < std::chrono::system_clock::now() + std::chrono::seconds(10));
}

TEST_CASE("an id's text reads back, and nothing else parses") {
    const Uuid id = Uuid::make_v7();
    const std::string text = id.text();
    REQUIRE(text.size() == 36);
    CHECK(Uuid::parse(text) == id);
    CHECK(Uuid::parse("0190ABCD-1234-7fff-8000-00000000000A")->text() ==
          "0190abcd-1234-7fff-8000-00000000000a");
    for (const char* wrong :
         {"", "0190abcd", "0190abcd12347fff800000000000000a", "0190abcd-1234-7fff-8000-00000000000",
          "0190abcd-1234-7fff-8000-00000000000aa", "0190abcd-1234-7fff-8000-00000000000g",
          "0190abcd01234-7fff-8000-00000000000a", "{190abcd-1234-7fff-8000-00000000000}",
          " 190abcd-1234-7fff-8000-00000000000a", "+190abcd-1234-7fff-8000-00000000000a"}) {
        INFO(wrong);
        CHECK_FALSE(Uuid::parse(wrong));
    }
    std::string every = text;
    for (std::size_t i = 0; i < every.size(); ++i) {
        every[i] = '\0';
        CHECK_FALSE(Uuid::parse(every));
        every[i] = text[i];
    }
}

TEST_CASE("random hex has the length asked for and does not repeat") {
    std::set<std::string> seen;
    for (int i = 0; i < 200; ++i) {
        const std::string text = shared::random_hex(16);
        REQUIRE(text.size() == 32);
        REQUIRE(text.find_first_not_of("0123456789abcdef") == text.npos);
        REQUIRE(seen.insert(text).second);
    }
    CHECK(shared::random_hex(0).empty());
}
