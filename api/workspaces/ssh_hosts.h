// The host names of ~/.ssh/config and what it includes, for the list of hosts. Reads files, never
// runs ssh, never touches the network. Broken or unreadable files cost only their own names.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace workspaces {

struct SshConfigLine {
    std::string keyword;  // in lower case
    std::vector<std::string> arguments;
    int number = 0;  // from 1
};

/// A file with a line that ssh itself would not take either, for people.
struct SshConfigProblem {
    std::string file;
    int line = 0;  // 0: the file as a whole
    std::string what;
};

/// One config file's text to its lines. Pure. Keywords in any case, "=" or blanks before the
/// arguments, "quoted arguments" with \" and \\ inside, comments, CRLF, a byte order mark. A line
/// with an unbalanced quote becomes a problem and nothing else.
struct ParsedSshConfig {
    std::vector<SshConfigLine> lines;
    std::vector<SshConfigProblem> problems;  // `file` left empty
};
ParsedSshConfig parse_ssh_config(std::string_view text);

struct SshHosts {
    std::vector<std::string> hosts;  // in file order, each once
    std::vector<SshConfigProblem> problems;
};

/// `home`/.ssh/config with its Includes: relative to `home`/.ssh, "~/", globs in their order,
/// nested at most 16 deep, at most 512 files of at most 1 MiB each. Left out: patterns, negations,
/// and names that could not be given to ssh (blanks, a leading "-"). Names included within a
/// `Host` or `Match` block count only where that block can match: `Host *`, `Match all`, or a
/// pattern that fits the included name. Blocks on fast local files only; FIFOs, sockets and
/// devices are not opened.
SshHosts list_ssh_hosts(const std::filesystem::path& home);

}  // namespace workspaces
