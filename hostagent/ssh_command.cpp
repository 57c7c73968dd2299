#include "hostagent/ssh_command.h"

namespace hostagent {

std::string ssh_target(const std::string& host) {
    const auto open = host.find('[');
    if (open == std::string::npos || host.back() != ']') return host;
    return host.substr(0, open) + host.substr(open + 1, host.size() - open - 2);
}

std::vector<std::string> ssh_argv(const SshOptions& options, const std::string& remote_line) {
    std::vector<std::string> argv{"ssh"};
    const auto option = [&](std::string text) {
        argv.emplace_back("-o");
        argv.push_back(std::move(text));
    };
    // First: names that older clients do not know must be excused before they come.
    option("IgnoreUnknown=SessionType,StdinNull,ForkAfterAuthentication");
    option("SessionType=default");
    option("StdinNull=no");
    option("ForkAfterAuthentication=no");
    option("RemoteCommand=none");
    option("RequestTTY=no");
    option("BatchMode=yes");
    option("ConnectTimeout=10");
    option("ClearAllForwardings=yes");
    option("PermitLocalCommand=no");
    option("ForwardX11=no");
    option("VisualHostKey=no");
    option("LogLevel=INFO");  // QUIET leaves exit 255 without words
    if (options.keep_alives) {
        option("ServerAliveInterval=" + std::to_string(kKeepAliveSeconds));
        option("ServerAliveCountMax=" + std::to_string(kKeepAliveCount));
    }
    switch (options.ride) {
        case Ride::master:
            option("ControlMaster=auto");
            option("ControlPersist=" + options.persist);
            option("ControlPath=" + options.control_path);
            break;
        case Ride::only:
            option("ControlMaster=no");
            option("ProxyCommand=false");
            option("ControlPath=" + options.control_path);
            break;
        case Ride::alone:
            option("ControlMaster=no");
            option("ControlPath=none");
            break;
    }
    argv.emplace_back("--");
    argv.push_back(ssh_target(options.host));
    argv.push_back(remote_line);
    return argv;
}

std::vector<std::string> ssh_question(const std::string& host) {
    return {"ssh", "-G", "--", ssh_target(host)};
}

std::vector<std::string> ssh_question(const std::string& host, const std::string& control_path) {
    return {"ssh", "-G", "-o", "ControlPath=" + control_path, "--", ssh_target(host)};
}

}  // namespace hostagent
