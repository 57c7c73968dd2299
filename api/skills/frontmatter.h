// The head of a SKILL.md: what stands between two `---` lines. Of YAML it reads the keys at the
// left margin whose value is a plain, quoted or block scalar, which is all that the Agent Skills
// format asks for; nested values are passed over. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "shared/result.h"

namespace skills {

inline constexpr std::size_t kMaxFrontmatterBytes = 64 * 1024;

struct Frontmatter {
    std::map<std::string, std::string> fields;
    std::size_t body_offset = 0;  // where the text after the closing line starts
};

/// Errors: invalid, saying what is missing: the opening or closing line, or a limit passed.
shared::Result<Frontmatter> parse_frontmatter(std::string_view file);

}  // namespace skills
