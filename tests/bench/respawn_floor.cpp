// The floor of supervision: fork, exec, waitpid, and again.
//
//   respawn_floor DESCRIPTOR    starts a child of its own program again whenever it ended; each child
//                               writes its pid, a native int, to DESCRIPTOR and waits for its end.
// Runs until it is killed; its child dies with it.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

int main(int count, char** words) {
    if (count < 2) return 2;
    if (count > 2) {
        const pid_t self = ::getpid();
        if (::write(std::atoi(words[1]), &self, sizeof self) != sizeof self) return 1;
        while (true) ::pause();
    }
    while (true) {
        const pid_t started = ::fork();
        if (started < 0) return 1;
        if (started == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            ::execl("/proc/self/exe", words[0], words[1], "child", nullptr);
            ::_exit(127);
        }
        int status = 0;
        while (::waitpid(started, &status, 0) < 0) {
        }
    }
}
