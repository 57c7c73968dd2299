// The text of a command line that every login shell reads alike: sh, dash, bash, zsh, fish, csh,
// tcsh. Pure. Knows nothing of ssh; what it makes is the one word that ssh hands to the shell over
// there.
//
// ssh gives its command to the user's login shell, and those differ: fish halves double backslashes
// inside quotes, csh expands `!` everywhere, ends at a newline, and reads neither `VAR=x command`
// nor redirections as sh does. So a command is words of a few safe characters, quoted whole, after
// one `exec` (no shell stays around it). All else travels on stdin, behind the loader:
//
//  1. The loader's program stands on the command line. It prints "\nMARKER\n" first.
//  2. Only when that marker was read does anything go to stdin: a start-up file that `exec`s
//  another
//     shell would run our stdin as commands.
//  3. The loader executes the first line of stdin, which reads and executes the program after it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hostagent {

using Words = std::vector<std::string>;

/// One word quoted for every login shell, or nothing if that cannot be done.
std::optional<std::string> quote_word(std::string_view word);

/// `exec WORD WORD...`. Words that cannot be quoted are the caller's bug.
std::string command_line(const Words& words);

/// Whether a path can stand in a command line as it is.
bool is_plain_path(std::string_view path);

/// Python that prints the marker in argv[1], then executes what comes on stdin (see input_of()).
Words loader(const std::string& python, const std::string& marker, const Words& more = {});

/// The same, started by the user's login shell, which finds `python3` where the user's own terminal
/// there would. `-l` is a word of its own.
Words login_loader(const std::string& marker);

/// What to send to a loader: `program`, then `data` for the program to read from sys.stdin.buffer.
std::string input_of(std::string_view program, std::string_view data);

/// Runs `script`, a file below `folder`, with `python -I -S` and `arguments`. A folder whose
/// spelling fits no command line is reached through $HOME: `home` is its start, as the host spells
/// it.
Words script(const std::string& python, const std::string& home, const std::string& folder,
             const std::string& script, const Words& arguments);

/// Prints the marker, then becomes `python -IS SCRIPT`, which finds stdin untouched.
Words marked_script(const std::string& python, const std::string& home, const std::string& folder,
                    const std::string& script, const std::string& marker);

}  // namespace hostagent
