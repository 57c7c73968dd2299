// What the api holds of a cell's output: bounded, without gaps or repeats, pulled only when read.
#include <catch2/catch.hpp>

#include "api/sessions/cell_output.h"

using namespace sessions;

namespace {
void add(CellOutput& output, std::uint64_t offset, const std::string& bytes) {
    output.append(offset, std::make_shared<const std::string>("head" + bytes), 4);
}

std::string all_from(const CellOutput& output, std::uint64_t offset) {
    std::string bytes;
    while (const auto piece = output.read(offset + bytes.size(), 3)) bytes += piece->bytes;
    return bytes;
}
}  // namespace

TEST_CASE("pieces join, overlaps are dropped") {
    CellOutput output(kFirstCredit);
    add(output, 0, "hello ");
    add(output, 6, "world");
    add(output, 3, "lo worldly");
    CHECK(all_from(output, 0) == "hello worldly");
    CHECK(all_from(output, 7) == "orldly");
    CHECK_FALSE(output.read(13, 10).has_value());
    add(output, 2, "llo");
    CHECK(output.end() == 13);
}

TEST_CASE("a jump ahead starts anew, and says so by begin()") {
    CellOutput output(0);
    add(output, 0, "first");
    add(output, 100, "later");
    CHECK(output.begin() == 100);
    CHECK_FALSE(output.read(0, 10).has_value());
    CHECK(all_from(output, 100) == "later");
}

TEST_CASE("only the newest bytes are held") {
    CellOutput output(0);
    const std::string chunk(64 * 1024, 'x');
    for (int i = 0; i < 64; ++i) add(output, output.end(), chunk);
    CHECK(output.end() == 64 * chunk.size());
    CHECK(output.end() - output.begin() <= kHotBytes);
    CHECK(output.end() - output.begin() > kHotBytes / 2);
}

TEST_CASE("credit follows the fastest reader") {
    CellOutput output(kFirstCredit);
    auto window = output.want(0);
    REQUIRE(window.has_value());
    CHECK(window->from == 0);
    CHECK(window->until == kWindowBytes);
    CHECK_FALSE(output.want(0).has_value());
    add(output, 0, std::string(kWindowBytes, 'x'));
    CHECK_FALSE(output.want(kWindowBytes / 4).has_value());  // a slow reader pulls nothing yet
    window = output.want(kWindowBytes / 2);
    REQUIRE(window.has_value());
    CHECK(window->from == kWindowBytes);
    CHECK(window->until == kWindowBytes / 2 + kWindowBytes);
}

TEST_CASE("after a detach a reader's window starts at the exact next byte") {
    CellOutput output(kFirstCredit);
    add(output, 0, "12345");
    output.detached();
    CHECK_FALSE(output.resume().has_value());  // nobody reads
    output.add_reader();
    const auto window = output.resume();
    REQUIRE(window.has_value());
    CHECK(window->from == 5);
    CHECK(window->until == 5 + kWindowBytes);
    output.drop_reader();
}
