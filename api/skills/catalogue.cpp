#include "api/skills/catalogue.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "api/skills/frontmatter.h"

namespace skills {
namespace {

constexpr std::string_view kRoots[] = {".albedo/skills/", ".agents/skills/"};
constexpr std::string_view kFile = "/SKILL.md";

bool usable_name(std::string_view name) {
    return !name.empty() && name.size() <= 64 &&
           std::all_of(name.begin(), name.end(), [](unsigned char each) {
               return std::isalnum(each) || each == '-' || each == '_' || each == '.';
           });
}

}  // namespace

Catalogue catalogue_of(const std::map<std::string, std::string>& files) {
    Catalogue found;
    std::size_t candidates = 0;
    for (std::string_view root : kRoots) {
        for (const auto& [path, content] : files) {
            if (!path.starts_with(root) || !path.ends_with(kFile)) continue;
            if (++candidates > kMaxCandidates) {
                found.problems.push_back(path + ": more than 128 skills");
                break;
            }
            auto head = parse_frontmatter(content);
            if (!head) {
                found.problems.push_back(path + ": " + head.error().message);
                continue;
            }
            Skill skill;
            const std::string folder = path.substr(0, path.size() - kFile.size());
            skill.name = head->fields["name"];
            if (skill.name.empty()) skill.name = folder.substr(folder.rfind('/') + 1);
            skill.description = head->fields["description"].substr(0, kMaxDescriptionBytes);
            skill.path = path;
            skill.body = content.substr(head->body_offset);
            const bool taken =
                std::any_of(found.skills.begin(), found.skills.end(),
                            [&](const Skill& other) { return other.name == skill.name; });
            if (!usable_name(skill.name)) {
                found.problems.push_back(path + ": its name is not letters, digits and dashes");
            } else if (skill.description.empty()) {
                found.problems.push_back(path + ": no description");
            } else if (taken) {
                found.problems.push_back(path + ": another skill has the name " + skill.name);
            } else {
                found.skills.push_back(std::move(skill));
            }
        }
    }
    std::sort(found.skills.begin(), found.skills.end(),
              [](const Skill& a, const Skill& b) { return a.name < b.name; });
    return found;
}

std::string advertised(const Catalogue& catalogue) {
    std::string text;
    for (const Skill& skill : catalogue.skills) {
        text += "- " + skill.name + ": " + skill.description + " (" + skill.path + ")\n";
    }
    return text;
}

}  // namespace skills
