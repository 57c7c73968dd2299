#include "hostagent/command_line.h"

#include <algorithm>

#include "shared/result.h"

namespace hostagent {

namespace {

constexpr std::string_view kLoader =
    "import sys;sys.stdout.write(chr(10)+sys.argv[1]+chr(10));sys.stdout.flush();"
    "exec(sys.stdin.buffer.readline())";

// argv: the script below $HOME, then its arguments.
constexpr std::string_view kFromHome =
    "import os,sys;p=os.path.join(os.path.expanduser(chr(126)),sys.argv[1]);"
    "os.execv(sys.executable,[sys.executable,chr(45)+chr(73)+chr(83),p]+sys.argv[2:])";

// argv: marker, the script, absolute or below $HOME.
constexpr std::string_view kMarkedScript =
    "import os,sys;p=os.path.join(os.path.expanduser(chr(126)),sys.argv[2]);"
    "sys.stdout.write(chr(10)+sys.argv[1]+chr(10));sys.stdout.flush();"
    "os.execv(sys.executable,[sys.executable,chr(45)+chr(73)+chr(83),p])";

bool one_of(char c, std::string_view set) {
    return set.find(c) != std::string_view::npos;
}
bool alphanumeric(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}
bool bare(char c) {
    return alphanumeric(c) || one_of(c, "/._+@%:,-");
}
bool printable_ascii(char c) {
    return c >= ' ' && c <= '~';
}

std::string join(const std::string& folder, const std::string& name) {
    return folder + "/" + name;
}

/// The part of `folder` below `home`, if it is there.
std::optional<std::string> below(const std::string& home, const std::string& folder) {
    if (folder.size() <= home.size() + 1 || folder.compare(0, home.size(), home) != 0 ||
        folder[home.size()] != '/')
        return std::nullopt;
    return folder.substr(home.size() + 1);
}

}  // namespace

std::optional<std::string> quote_word(std::string_view word) {
    if (word.empty() || !std::all_of(word.begin(), word.end(), printable_ascii))
        return std::nullopt;
    if (std::all_of(word.begin(), word.end(), bare)) return std::string(word);
    const auto has_none = [&](std::string_view set) {
        return std::none_of(word.begin(), word.end(), [&](char c) { return one_of(c, set); });
    };
    if (has_none("'\\!")) return "'" + std::string(word) + "'";
    if (has_none("\"\\!$`")) return "\"" + std::string(word) + "\"";
    return std::nullopt;
}

std::string command_line(const Words& words) {
    std::string line = "exec";
    for (const auto& word : words) {
        const auto quoted = quote_word(word);
        ALBEDO_CHECK(quoted.has_value());
        line += " " + *quoted;
    }
    return line;
}

bool is_plain_path(std::string_view path) {
    return !path.empty() && path.front() == '/' &&
           std::all_of(path.begin(), path.end(),
                       [](char c) { return alphanumeric(c) || one_of(c, "/._+@ -"); });
}

Words loader(const std::string& python, const std::string& marker, const Words& more) {
    Words words{python, "-I", "-S", "-c", std::string(kLoader), marker};
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

Words login_loader(const std::string& marker) {
    return {"/bin/sh", "-c", "exec \"${SHELL:-/bin/sh}\" -l -c \"$1\"", "sh",
            command_line(loader("python3", marker))};
}

std::string input_of(std::string_view program, std::string_view data) {
    std::string input = "exec(sys.stdin.buffer.read(" + std::to_string(program.size()) + "))\n";
    input += program;
    input += data;
    return input;
}

Words script(const std::string& python, const std::string& home, const std::string& folder,
             const std::string& script, const Words& arguments) {
    const std::string path = join(folder, script);
    Words words{python, "-I", "-S"};  // site costs as much time again as Python itself
    const auto relative = below(home, path);
    if (is_plain_path(path) || !relative)
        words.push_back(path);
    else
        words.insert(words.end(), {"-c", std::string(kFromHome), *relative});
    words.insert(words.end(), arguments.begin(), arguments.end());
    return words;
}

Words marked_script(const std::string& python, const std::string& home, const std::string& folder,
                    const std::string& script, const std::string& marker) {
    std::string path = join(folder, script);
    if (!is_plain_path(path)) path = below(home, path).value_or(path);
    return {python, "-I", "-S", "-c", std::string(kMarkedScript), marker, path};
}

}  // namespace hostagent
