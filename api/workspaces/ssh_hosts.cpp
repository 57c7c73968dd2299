#include "api/workspaces/ssh_hosts.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "api/workspaces/location.h"
#include "shared/result.h"
#include "shared/unique_fd.h"

namespace workspaces {

namespace {

namespace fs = std::filesystem;

constexpr int kMaxDepth = 16;  // ssh's own limit
constexpr int kMaxFiles = 512;
constexpr std::size_t kMaxFileBytes = 1 << 20;
constexpr std::size_t kMaxHosts = 4096;
constexpr std::size_t kMaxProblems = 64;

std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
    return out;
}

bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\f';
}

/// The words of a line. Nothing: a quote has no end.
std::optional<std::vector<std::string>> words_of(std::string_view line) {
    std::vector<std::string> words;
    std::size_t i = 0;
    while (true) {
        // One "=" may stand between keyword and first argument.
        bool equals = words.size() != 1;
        while (i < line.size() && (is_blank(line[i]) || (!equals && line[i] == '='))) {
            equals = equals || line[i] == '=';
            ++i;
        }
        if (i == line.size() || line[i] == '#') return words;
        std::string word;
        char quote = 0;
        for (; i < line.size(); ++i) {
            const char c = line[i];
            const char next = i + 1 < line.size() ? line[i + 1] : '\0';
            if (c == '\\' && (next == '"' || next == '\'' || next == '\\')) {
                word += next;
                ++i;
            } else if (quote != 0) {
                if (c == quote)
                    quote = 0;
                else
                    word += c;
            } else if (c == '"' || c == '\'') {
                quote = c;
            } else if (is_blank(c) || (words.empty() && c == '=')) {
                break;
            } else {
                word += c;
            }
        }
        if (quote != 0) return std::nullopt;
        words.push_back(std::move(word));
    }
}

struct FileText {
    std::string text;
    std::string problem;
};

/// A regular file's text; never waits for a FIFO's writer.
FileText read_file(const fs::path& path) {
    const shared::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!file) return {{}, std::strerror(errno)};
    struct stat status = {};
    if (::fstat(file.get(), &status) < 0) return {{}, std::strerror(errno)};
    if (!S_ISREG(status.st_mode)) return {{}, "is not a regular file"};
    FileText read;
    while (read.text.size() <= kMaxFileBytes) {
        char part[16 * 1024];
        const ssize_t got = ::read(file.get(), part, sizeof part);
        if (got < 0) return {{}, std::strerror(errno)};
        if (got == 0) return read;
        read.text.append(part, static_cast<std::size_t>(got));
    }
    return {{}, "is larger than 1 MiB"};
}

/// Whether one block's `Host` patterns take a host: one of them fits, and no "!" one does.
bool takes(const std::vector<std::string>& patterns, const std::string& host) {
    bool taken = false;
    for (const auto& pattern : patterns) {
        const bool negated = pattern.substr(0, 1) == "!";
        const std::string bare = lower(negated ? pattern.substr(1) : pattern);
        if (::fnmatch(bare.c_str(), lower(host).c_str(), FNM_NOESCAPE) != 0) continue;
        if (negated) return false;
        taken = true;
    }
    return taken;
}

class Loader {
  public:
    explicit Loader(const fs::path& home) : home_(home), ssh_(home / ".ssh") {}

    void load(const fs::path& path, bool is_optional, int depth) {
        std::error_code ignored;
        const fs::path real = fs::weakly_canonical(path, ignored);
        if (std::find(open_.begin(), open_.end(), real) != open_.end()) {
            problem(path, 0, "includes itself");
            return;
        }
        if (depth > kMaxDepth || ++files_ > kMaxFiles) {
            problem(path, 0, "too many files are included");
            return;
        }
        auto read = read_file(path);
        if (!read.problem.empty()) {
            if (!is_optional || fs::exists(path, ignored)) problem(path, 0, read.problem);
            return;
        }
        auto parsed = parse_ssh_config(read.text);
        for (auto& broken : parsed.problems) problem(path, broken.line, broken.what);
        open_.push_back(real);
        const std::size_t outer = blocks_.size();
        for (const auto& line : parsed.lines) {
            if (line.keyword == "host" || line.keyword == "match") {
                blocks_.resize(outer);
                enter(line);
            } else if (line.keyword == "include") {
                for (const auto& pattern : line.arguments) include(pattern, depth + 1);
            }
        }
        blocks_.resize(outer);
        open_.pop_back();
    }

    SshHosts take() { return std::move(found_); }

  private:
    void problem(const fs::path& file, int line, std::string what) {
        if (found_.problems.size() < kMaxProblems)
            found_.problems.push_back({file.string(), line, std::move(what)});
    }

    void enter(const SshConfigLine& line) {
        if (line.keyword == "match") {
            // What else a Match asks (exec, user, network) is not for a list to find out.
            const bool all = line.arguments.size() == 1 && lower(line.arguments[0]) == "all";
            blocks_.push_back(all ? std::vector<std::string>{"*"} : std::vector<std::string>{});
            return;
        }
        for (const auto& name : line.arguments) {
            if (name.find_first_of("*?!") != std::string::npos || !check_target(name)) continue;
            const bool reachable =
                std::all_of(blocks_.begin(), blocks_.end(),
                            [&](const auto& block) { return takes(block, name); });
            if (reachable && found_.hosts.size() < kMaxHosts && names_.insert(name).second)
                found_.hosts.push_back(name);
        }
        blocks_.push_back(line.arguments);
    }

    void include(const std::string& pattern, int depth) {
        fs::path path = pattern;
        if (pattern.substr(0, 2) == "~/")
            path = home_ / pattern.substr(2);
        else if (path.is_relative())
            path = ssh_ / path;
        glob_t found = {};
        const int failed = ::glob(path.c_str(), 0, nullptr, &found);
        const std::unique_ptr<glob_t, void (*)(glob_t*)> owner(&found, ::globfree);
        if (failed != 0) return;  // none there is no fault, as in ssh
        for (std::size_t i = 0; i < found.gl_pathc; ++i) load(found.gl_pathv[i], true, depth);
    }

    fs::path home_, ssh_;
    SshHosts found_;
    std::set<std::string> names_;
    std::vector<fs::path> open_;                    // the files we are inside of
    std::vector<std::vector<std::string>> blocks_;  // the Host patterns we are inside of
    int files_ = 0;
};

}  // namespace

ParsedSshConfig parse_ssh_config(std::string_view text) {
    ParsedSshConfig parsed;
    if (text.substr(0, 3) == "\xef\xbb\xbf") text.remove_prefix(3);
    for (int number = 1; !text.empty(); ++number) {
        const auto end = std::min(text.find('\n'), text.size());
        auto line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        while (!line.empty() && (line.back() == '\r' || is_blank(line.back())))
            line.remove_suffix(1);
        auto words = words_of(line);
        if (!words) {
            parsed.problems.push_back({{}, number, "a quote has no end"});
            continue;
        }
        if (words->empty()) continue;
        SshConfigLine entry{lower(words->front()), {}, number};
        entry.arguments.assign(std::make_move_iterator(words->begin() + 1),
                               std::make_move_iterator(words->end()));
        if (entry.keyword.empty())
            parsed.problems.push_back({{}, number, "a line starts without a keyword"});
        else if (entry.arguments.empty())
            parsed.problems.push_back({{}, number, entry.keyword + " has no argument"});
        else
            parsed.lines.push_back(std::move(entry));
    }
    return parsed;
}

SshHosts list_ssh_hosts(const fs::path& home) {
    Loader loader(home);
    loader.load(home / ".ssh" / "config", true, 0);
    return loader.take();
}

}  // namespace workspaces
