// Ctrl-C while a cell is followed. SIGINT is blocked in every thread of the process from the
// construction on, and a thread of this object takes it; so make it before other threads.
#pragma once

#include <functional>
#include <thread>

#include "shared/unique_fd.h"

namespace cli {

/// Calls `on_interrupt(n)` on its own thread at the n-th SIGINT. SIGTERM and SIGHUP keep their
/// default: the program ends, the cell goes on.
class Interrupts {
  public:
    explicit Interrupts(std::function<void(int)> on_interrupt);
    ~Interrupts();
    Interrupts(const Interrupts&) = delete;
    Interrupts& operator=(const Interrupts&) = delete;

  private:
    void run();

    std::function<void(int)> on_interrupt_;
    shared::UniqueFd signals_;
    shared::UniqueFd stop_;
    std::thread thread_;
};

}  // namespace cli
