// The one lock over all live state of the api: hosts, calls, kernel links, cells.
//
// Loop handlers hold it while they run; HTTP threads take it to make a call or to write a frame
// straight into a channel, which spares a hop between threads (25-40 us each way here). It is never
// held during disk, SQLite or any wait but one on a condition variable, which lets it go.
// Functions that take a `const Lock&` want it held; the others must be called without it.
#pragma once

#include <mutex>

namespace agents {

class Monitor {
  public:
    using Lock = std::unique_lock<std::mutex>;
    [[nodiscard]] Lock lock() { return Lock(mutex_); }

  private:
    std::mutex mutex_;
};

}  // namespace agents
