// The skills of a workspace: which there are, and one's text when it is activated. Pure: files come
// from the gather (bundle/albedo_gather.py). Only name, description and path are ever advertised;
// activating a skill gives its text and runs nothing.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace skills {

inline constexpr std::size_t kMaxCandidates = 128;
inline constexpr std::size_t kMaxDescriptionBytes = 1024;  // the Agent Skills format's own limit

struct Skill {
    std::string name;
    std::string description;
    std::string path;  // of its SKILL.md, relative to the workspace
    std::string body;  // what activation gives
};

struct Catalogue {
    std::vector<Skill> skills;          // by name; one per name
    std::vector<std::string> problems;  // what was left out and why, for a person
};

/// From path -> content. `.albedo/skills` comes before `.agents/skills` when names collide; a
/// folder's name stands in for a missing `name`.
Catalogue catalogue_of(const std::map<std::string, std::string>& files);

/// The part of the model's instructions that lists them; empty without skills.
std::string advertised(const Catalogue& catalogue);

}  // namespace skills
