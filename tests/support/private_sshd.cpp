#include "tests/support/private_sshd.h"

#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <stdexcept>

#include "shared/clock.h"
#include "shared/unique_fd.h"

namespace support {

namespace fs = std::filesystem;

namespace {

const char* const kShells[] = {"bash", "zsh", "fish", "tcsh", "dash"};

void run(const std::vector<std::string>& argv) {
    shared::SpawnOptions options;
    options.argv = argv;
    auto child = shared::ChildProcess::spawn(options);
    if (!child) throw std::runtime_error(child.error().message);
    const shared::EndPlan plan{shared::Milliseconds(20'000), shared::Milliseconds(0),
                               shared::Milliseconds(2000), SIGTERM};
    if (!child->end(plan).clean()) throw std::runtime_error(argv[0] + " failed");
}

std::string text_of(const fs::path& file) {
    std::stringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
}

/// A port nobody listens on at this moment.
int free_port() {
    const shared::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size);
    ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size);
    return ntohs(address.sin_port);
}

bool listens(int port) {
    const shared::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    return ::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

}  // namespace

PrivateSshd::PrivateSshd(const fs::path& folder, const std::string& client_config,
                         const std::string& server_config)
    : folder_(folder) {
    for (const char* name : {"home", "bin", "runtime"}) fs::create_directories(folder_ / name);
    fs::create_directories("/run/sshd");
    fs::permissions(folder_, fs::perms(0755));  // sshd reads authorized_keys as the login user
    const std::string at = folder_.native();
    run({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", at + "/hostkey"});
    run({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", at + "/id"});
    fs::copy_file(folder_ / "id.pub", folder_ / "authorized_keys");

    std::ostringstream server, client;
    std::string ports, matches;
    std::vector<int> port_of;
    for (std::size_t i = 0; i <= std::size(kShells); ++i) {
        port_of.push_back(free_port());
        ports += "Port " + std::to_string(port_of.back()) + "\n";
        if (i == 0) continue;
        const std::string shell = std::string("/bin/") + kShells[i - 1];
        matches += "Match LocalPort " + std::to_string(port_of.back()) +
                   "\n    ForceCommand env SHELL=" + shell + " " + shell +
                   " -c \"$SSH_ORIGINAL_COMMAND\"\n";
    }
    server
        << ports << "ListenAddress 127.0.0.1\nHostKey " << at << "/hostkey\nPidFile none\n"
        << "AuthorizedKeysFile " << at << "/authorized_keys\nPermitRootLogin prohibit-password\n"
        << "PasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nStrictModes no\n"
        << "UseDNS no\nPrintMotd no\nSetEnv HOME=" << at << "/home\n"
        << server_config << "\n"
        << matches;
    std::ofstream(folder_ / "sshd_config") << server.str();

    const std::string key = text_of(folder_ / "hostkey.pub");
    std::ofstream(folder_ / "known_hosts") << "private " << key;
    client << client_config << "\n";
    for (std::size_t i = 0; i < port_of.size(); ++i)
        client << "Host " << (i == 0 ? "box" : kShells[i - 1]) << "\n    Port " << port_of[i]
               << "\n";
    client << "Host *\n    HostName 127.0.0.1\n    User root\n    HostKeyAlias private\n    "
              "IdentityFile "
           << at << "/id\n    IdentitiesOnly yes\n    UserKnownHostsFile " << at
           << "/known_hosts\n    GlobalKnownHostsFile none\n    StrictHostKeyChecking yes\n";
    std::ofstream(folder_ / "ssh_config") << client.str();
    std::ofstream(folder_ / "bin/ssh")
        << "#!/bin/sh\nprintf '%s\\n' \"$*\" >> " << at << "/ssh.log\nexec /usr/bin/ssh -F " << at
        << "/ssh_config \"$@\"\n";
    fs::permissions(folder_ / "bin/ssh", fs::perms::owner_all);

    shared::SpawnOptions options;
    options.argv = {"/usr/sbin/sshd", "-D", "-f", at + "/sshd_config", "-E", at + "/sshd.log"};
    auto child = shared::ChildProcess::spawn(options);
    if (!child) throw std::runtime_error(child.error().message);
    server_.emplace(std::move(*child));
    const auto deadline = shared::Monotonic::now() + std::chrono::seconds(10);
    while (!listens(port_of.front()))
        if (shared::Monotonic::now() > deadline || server_->try_reap())
            throw std::runtime_error("sshd does not come up: " + text_of(folder_ / "sshd.log"));
}

PrivateSshd::~PrivateSshd() {
    if (const pid_t master = master_pid(control_socket())) ::kill(master, SIGKILL);
    if (server_) server_->signal(SIGTERM);
}

std::vector<std::string> PrivateSshd::environment() const {
    return {"PATH=" + (folder_ / "bin").native() + ":/usr/local/bin:/usr/bin:/bin",
            "HOME=" + (folder_ / "home").native(),
            "XDG_RUNTIME_DIR=" + (folder_ / "runtime").native()};
}

std::size_t PrivateSshd::sign_ins() const {
    std::istringstream lines(text_of(folder_ / "sshd.log"));
    std::size_t count = 0;
    for (std::string line; std::getline(lines, line);)
        if (line.find("Accepted publickey") != std::string::npos) ++count;
    return count;
}

pid_t PrivateSshd::master_pid(const std::string& socket) {
    // A master in the background names itself by its socket; the pid that the kernel knows for the
    // socket is that of the process before it went there.
    if (socket.empty()) return 0;
    for (const auto& process : fs::directory_iterator("/proc")) {
        const std::string name = process.path().filename();
        if (name.find_first_not_of("0123456789") != std::string::npos) continue;
        const std::string command = text_of(process.path() / "cmdline");
        if (command.find(socket + " [mux]") != std::string::npos) return std::stoi(name);
    }
    return 0;
}

std::string PrivateSshd::control_socket() const {
    for (const char* name : {"runtime/albedo", "cm"})
        if (fs::exists(folder_ / name))
            for (const auto& entry : fs::directory_iterator(folder_ / name))
                if (fs::is_socket(entry)) return entry.path();
    return {};
}

}  // namespace support
