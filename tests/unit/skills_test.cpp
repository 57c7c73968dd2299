#include <catch2/catch.hpp>

#include "api/skills/catalogue.h"
#include "api/skills/frontmatter.h"

using namespace skills;

TEST_CASE("a skill's head is read as the format writes it") {
    struct Row {
        const char* head;
        const char* description;
    };
    const Row rows[] = {
        {"description: plain text\n", "plain text"},
        {"description: plain # with a comment\n", "plain"},
        {"description: \"quoted: \\\"yes\\\"\"\n", "quoted: \"yes\""},
        {"description: 'it''s'\n", "it's"},
        {"description: >-\n  folded\n  lines\n", "folded lines"},
        {"description: |\n  kept\n  lines\n", "kept\nlines"},
        {"description: goes on\n  in the next line\n", "goes on in the next line"},
        {"metadata:\n  description: nested\ndescription: own\n", "own"},
        {"# description: comment\ndescription: real\r\n", "real"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.head);
        const std::string file = std::string("---\nname: x\n") + row.head + "---\nbody\n";
        const auto found = parse_frontmatter(file);
        REQUIRE(found.ok());
        CHECK(found->fields.at("description") == row.description);
        CHECK(file.substr(found->body_offset) == "body\n");
    }
}

TEST_CASE("a head that is not one is refused with the reason") {
    CHECK(parse_frontmatter("name: x\n").error().message == "the first line is not ---");
    CHECK(parse_frontmatter("").error().message == "the first line is not ---");
    CHECK(parse_frontmatter("---\nname: x\n").error().message ==
          "its head has no closing --- line");
    const std::string endless = "---\n" + std::string(kMaxFrontmatterBytes, 'a') + "\n---\n";
    CHECK(parse_frontmatter(endless).error().message == "its head is over 64 KiB");
}

TEST_CASE(
    "the catalogue has one skill per name, albedo's folder first, and names what it left out") {
    const std::string head = "---\nname: one\ndescription: ";
    const Catalogue found = catalogue_of({
        {".agents/skills/one/SKILL.md", head + "second\n---\n"},
        {".albedo/skills/one/SKILL.md", head + "first\n---\ntext\n"},
        {".agents/skills/unnamed/SKILL.md", "---\ndescription: by its folder\n---\n"},
        {".agents/skills/mute/SKILL.md", "---\nname: mute\n---\n"},
        {".agents/skills/bad/SKILL.md", "---\nname: a b\ndescription: d\n---\n"},
        {".agents/skills/one/other.md", "not a skill"},
    });
    REQUIRE(found.skills.size() == 2);
    CHECK(found.skills[0].description == "first");
    CHECK(found.skills[0].body == "text\n");
    CHECK(found.skills[1].name == "unnamed");
    CHECK(found.problems.size() == 3);
    CHECK(advertised(found).find("- one: first (.albedo/skills/one/SKILL.md)\n") == 0);
}
