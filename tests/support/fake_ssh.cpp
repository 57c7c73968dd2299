#include "tests/support/fake_ssh.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace support {

namespace fs = std::filesystem;

namespace {

void write_program(const fs::path& path, const std::string& text) {
    std::ofstream(path) << text;
    fs::permissions(path, fs::perms::owner_all);
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
    for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
        text.replace(at, what.size(), with);
    return text;
}

constexpr const char* kSsh = R"(#!/bin/sh
printf '%s\n' "$*" >> @/log
while [ $# -gt 0 ]; do
    case "$1" in
    -o) shift 2 ;;
    -*) shift ;;
    *) break ;;
    esac
done
target=$1
shift
path=/usr/local/bin:/usr/bin:/bin
case "$target" in
shut) echo "ssh: connect to host shut port 22: Connection refused" >&2; exit 255 ;;
locked) [ -e @/unlocked ] || { echo "locked: Permission denied (publickey)." >&2; exit 255; } ;;
down) [ -e @/down ] && { echo "ssh: connect to host down port 22: Operation timed out" >&2; exit 255; } ;;
old) path=@/old-bin:$path ;;
noisy) head -c 1000000 /dev/zero | tr '\0' x; echo; echo "albedo-bridge of another"; echo "a greeting" >&2 ;;
esac
[ $# -eq 0 ] && exit 0
case "$*" in
*.part.*)
    [ -e @/slow ] && sleep 1
    [ -e @/cut ] && { head -c 20000 | env -i HOME=@/remote-home PATH="$path" /bin/sh -c "$*"; exit 255; } ;;
esac
exec env -i HOME=@/remote-home PATH="$path" SHELL=@/bin/login-shell /bin/sh -c "$*"
)";

constexpr const char* kLoginShell = R"(#!/bin/sh
if [ "$1" = -l ]; then
    shift
    echo "welcome to the fake host"
fi
exec /bin/sh "$@"
)";

}  // namespace

FakeSsh::FakeSsh(const fs::path& folder) : folder_(folder) {
    for (const char* name : {"bin", "old-bin", "remote-home", "user-home", "runtime"})
        fs::create_directories(folder_ / name);
    write_program(folder_ / "bin/ssh", replaced(kSsh, "@", folder_.native()));
    write_program(folder_ / "bin/login-shell", kLoginShell);
    write_program(folder_ / "old-bin/python3", "#!/bin/sh\necho 3.9\n");
}

std::vector<std::string> FakeSsh::environment() const {
    return {"PATH=" + (folder_ / "bin").native() + ":/usr/local/bin:/usr/bin:/bin",
            "HOME=" + (folder_ / "user-home").native(),
            "XDG_RUNTIME_DIR=" + (folder_ / "runtime").native()};
}

std::string FakeSsh::log() const {
    std::stringstream text;
    text << std::ifstream(folder_ / "log").rdbuf();
    return text.str();
}

std::size_t FakeSsh::count(const std::string& word) const {
    std::istringstream lines(log());
    std::size_t count = 0;
    for (std::string line; std::getline(lines, line);)
        if (line.find(word) != std::string::npos) ++count;
    return count;
}

void FakeSsh::touch(const std::string& name) const {
    std::ofstream(folder_ / name) << "";
}
void FakeSsh::remove(const std::string& name) const {
    fs::remove(folder_ / name);
}

}  // namespace support
