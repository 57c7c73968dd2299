#include "cli/interrupts.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace cli {
namespace {

sigset_t only_interrupt() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    return set;
}

}  // namespace

Interrupts::Interrupts(std::function<void(int)> on_interrupt)
    : on_interrupt_(std::move(on_interrupt)) {
    const sigset_t set = only_interrupt();
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    signals_.reset(signalfd(-1, &set, SFD_CLOEXEC));
    stop_.reset(eventfd(0, EFD_CLOEXEC));
    if (!signals_ || !stop_) throw std::system_error(errno, std::generic_category(), "signalfd");
    thread_ = std::thread([this] { run(); });
}

Interrupts::~Interrupts() {
    const std::uint64_t one = 1;
    if (write(stop_.get(), &one, sizeof one) == sizeof one) thread_.join();
    const sigset_t set = only_interrupt();
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void Interrupts::run() {
    pollfd watched[] = {{signals_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    for (int count = 0; poll(watched, 2, -1) >= 0 || errno == EINTR;) {
        if (watched[1].revents) return;
        signalfd_siginfo taken;
        if (watched[0].revents && read(signals_.get(), &taken, sizeof taken) > 0) {
            on_interrupt_(++count);
        }
    }
}

}  // namespace cli
