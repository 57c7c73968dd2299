#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/terminal.h"

namespace cli {
namespace {

std::string joined(const std::vector<std::string>& words) {
    std::string out;
    for (const auto& word : words) out += (out.empty() ? "" : " ") + word;
    return out;
}

std::string bash(const std::string& commands, const std::string& actions) {
    return "_albedo() {\n"
           "    local word=${COMP_WORDS[COMP_CWORD]}\n"
           "    case $COMP_CWORD:${COMP_WORDS[1]} in\n"
           "        1:*) COMPREPLY=($(compgen -W '" +
           commands +
           "' -- \"$word\")) ;;\n"
           "        2:hosts) COMPREPLY=($(compgen -W '" +
           actions +
           "' -- \"$word\")) ;;\n"
           "        2:completion) COMPREPLY=($(compgen -W 'bash zsh fish' -- \"$word\")) ;;\n"
           "        2:exec | 2:new) COMPREPLY=($(compgen -d -- \"$word\")) ;;\n"
           "    esac\n"
           "}\n"
           "complete -F _albedo albedo\n";
}

std::string zsh(const std::string& commands, const std::string& actions) {
    return "#compdef albedo\n"
           "_albedo() {\n"
           "    if (( CURRENT == 2 )); then\n"
           "        compadd -- " +
           commands +
           "\n"
           "    elif (( CURRENT == 3 )); then\n"
           "        case $words[2] in\n"
           "            hosts) compadd -- " +
           actions +
           " ;;\n"
           "            completion) compadd -- bash zsh fish ;;\n"
           "            exec|new) _files -/ ;;\n"
           "        esac\n"
           "    fi\n"
           "}\n"
           "compdef _albedo albedo\n";
}

std::string fish(const std::string& commands, const std::string& actions) {
    return "complete -c albedo -f\n"
           "complete -c albedo -n __fish_use_subcommand -a '" +
           commands +
           "'\n"
           "complete -c albedo -n '__fish_seen_subcommand_from hosts' -a '" +
           actions +
           "'\n"
           "complete -c albedo -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'\n"
           "complete -c albedo -n '__fish_seen_subcommand_from exec new' -a "
           "'(__fish_complete_directories)'\n";
}

}  // namespace

shared::Result<int> run_completion(const CompletionOptions& options) {
    const std::string commands = joined(options.commands);
    const std::string actions = joined(options.host_actions);
    const auto script = options.shell == "bash"  ? bash(commands, actions)
                        : options.shell == "zsh" ? zsh(commands, actions)
                                                 : fish(commands, actions);
    write_output(script);
    return kOk;
}

}  // namespace cli
