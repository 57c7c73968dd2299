#include "api/skills/frontmatter.h"

#include <vector>

namespace skills {
namespace {

struct Line {
    std::string_view text;  // without its line end
    std::size_t next;       // offset of the line after it
};

Line line_at(std::string_view file, std::size_t offset) {
    const std::size_t end = file.find('\n', offset);
    std::string_view text = file.substr(offset, end == file.npos ? file.npos : end - offset);
    if (text.ends_with('\r')) text.remove_suffix(1);
    return {text, end == file.npos ? file.size() : end + 1};
}

std::string_view trimmed(std::string_view text) {
    const std::size_t from = text.find_first_not_of(" \t");
    if (from == text.npos) return {};
    return text.substr(from, text.find_last_not_of(" \t") - from + 1);
}

std::string double_quoted(std::string_view text) {
    std::string value;
    for (std::size_t at = 1; at < text.size() && text[at] != '"'; ++at) {
        if (text[at] != '\\' || at + 1 == text.size()) {
            value += text[at];
            continue;
        }
        const char escaped = text[++at];
        value += escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped;
    }
    return value;
}

std::string single_quoted(std::string_view text) {
    std::string value;
    for (std::size_t at = 1; at < text.size(); ++at) {
        if (text[at] == '\'') {
            if (at + 1 == text.size() || text[at + 1] != '\'') break;
            ++at;
        }
        value += text[at];
    }
    return value;
}

std::string plain(std::string_view text) {
    const std::size_t comment = text.find(" #");
    return std::string(trimmed(text.substr(0, comment)));
}

std::string joined(const std::vector<std::string_view>& lines, bool keep_line_ends) {
    std::string value;
    bool fresh = true;
    for (std::string_view line : lines) {
        if (keep_line_ends) {
            value.append(line).append("\n");
        } else if (line.empty()) {
            value += '\n';
            fresh = true;
        } else {
            if (!fresh) value += ' ';
            value.append(line);
            fresh = false;
        }
    }
    while (value.ends_with('\n')) value.pop_back();
    return value;
}

}  // namespace

shared::Result<Frontmatter> parse_frontmatter(std::string_view file) {
    if (file.starts_with("\xEF\xBB\xBF")) file.remove_prefix(3);
    Line line = line_at(file, 0);
    if (trimmed(line.text) != "---") {
        return shared::Error{shared::ErrorCode::invalid, "the first line is not ---", {}};
    }
    Frontmatter found;
    std::size_t offset = line.next;
    while (offset < file.size()) {
        line = line_at(file, offset);
        offset = line.next;
        if (offset > kMaxFrontmatterBytes) {
            return shared::Error{shared::ErrorCode::invalid, "its head is over 64 KiB", {}};
        }
        if (trimmed(line.text) == "---") {
            found.body_offset = offset;
            return found;
        }
        const std::size_t colon = line.text.find(':');
        if (colon == line.text.npos || line.text.front() == ' ' || line.text.front() == '#' ||
            line.text.front() == '\t' || line.text.front() == '-') {
            continue;
        }
        const std::string key(trimmed(line.text.substr(0, colon)));
        const std::string_view value = trimmed(line.text.substr(colon + 1));
        if (value.starts_with('"')) {
            found.fields[key] = double_quoted(value);
            continue;
        }
        if (value.starts_with('\'')) {
            found.fields[key] = single_quoted(value);
            continue;
        }
        // A block scalar, or a plain one that goes on in indented lines.
        const bool block = value.starts_with('|') || value.starts_with('>');
        std::vector<std::string_view> lines;
        if (!block && !value.empty()) lines.push_back(value);
        while (offset < file.size()) {
            const Line more = line_at(file, offset);
            const bool indented = more.text.starts_with(' ') || more.text.starts_with('\t');
            if (!indented && !(block && more.text.empty())) break;
            lines.push_back(trimmed(more.text));
            offset = more.next;
        }
        found.fields[key] =
            block ? joined(lines, value.front() == '|') : plain(joined(lines, false));
    }
    return shared::Error{shared::ErrorCode::invalid, "its head has no closing --- line", {}};
}

}  // namespace skills
