// The text that tells the model where it is and how its tool works. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace providers {

// Each slot is cut at a bound, with a mark, so that a folder's files cannot crowd out the rest.
inline constexpr std::size_t kMaxProjectInstructionBytes = 64 << 10;
inline constexpr std::size_t kMaxMemoryBytes = 8000;
inline constexpr std::size_t kMaxSkillsBytes = 32 << 10;

struct RemotePlace {
    std::string host;
    std::string os;
    std::string arch;
    std::string home;
};

struct AdvertisedSkill {
    std::string name;
    std::string description;
    std::string path;
};

/// Everything here may come from a host; it is text to the model and nothing else.
struct InstructionParts {
    std::string folder;
    std::optional<RemotePlace> remote;  // none: this machine
    std::vector<std::string> project_instructions;
    std::vector<AdvertisedSkill> skills;
    std::vector<std::string> gone_links;  // workspaces
    std::string memory;
    std::vector<std::string> notes;  // told once, with the next request
};

std::string instructions(const InstructionParts& parts);

}  // namespace providers
