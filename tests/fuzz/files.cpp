// Files of a person or a project, and the places people name: config.json, SKILL.md, locations.
#include <map>
#include <string>
#include <string_view>

#include "api/providers/config.h"
#include "api/skills/catalogue.h"
#include "api/skills/frontmatter.h"
#include "api/workspaces/location.h"
#include "shared/result.h"
#include "tests/fuzz/targets.h"

namespace {

void config(std::string_view bytes) {
    const auto read = providers::parse_config(bytes);
    if (!read) {
        ALBEDO_CHECK(!read.error().message.empty());
        return;
    }
    ALBEDO_CHECK(!read->profiles.empty());
    for (const auto& [name, profile] : read->profiles) {
        ALBEDO_CHECK(profile.name == name && profile.timeout.count() > 0);
        const int keys =
            !profile.key.empty() + !profile.key_variable.empty() + !profile.key_file.empty();
        ALBEDO_CHECK(keys <= 1);
    }
    (void)read->profile("");
}

void skill(std::string_view bytes) {
    if (const auto head = skills::parse_frontmatter(bytes))
        ALBEDO_CHECK(head->body_offset <= bytes.size());
    const std::map<std::string, std::string> project{
        {".agents/skills/one/SKILL.md", std::string(bytes)}};
    const auto found = skills::catalogue_of(project);
    ALBEDO_CHECK(found.skills.size() + found.problems.size() == 1);
    (void)skills::advertised(found);
}

void location(std::string_view bytes) {
    (void)workspaces::check_target(bytes);
    ALBEDO_CHECK(workspaces::slug(bytes).find('/') == std::string::npos);
    const auto place = workspaces::parse_location(bytes);
    if (!place) return;
    const std::string text = place->text();
    const auto again = workspaces::parse_location(text);
    ALBEDO_CHECK(again.ok() && *again == *place && again->text() == text);
    ALBEDO_CHECK(!place->target().empty() && place->target().front() != '-');
    const auto resolved = workspaces::resolve(*place, "/home/me");
    ALBEDO_CHECK(resolved.path.starts_with('/') && !resolved.is_home_relative);
    ALBEDO_CHECK(workspaces::normalise_path(resolved.path) == resolved.path);
    (void)place->label();
    (void)place->prefix();
}

}  // namespace

void fuzz::files(std::string_view bytes) {
    switch (choice(bytes, 3)) {
        case 0:
            return config(bytes);
        case 1:
            return skill(bytes);
        default:
            return location(bytes);
    }
}
