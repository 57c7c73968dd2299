// The page that each process of the daemon shares with the supervisor: heartbeat, counters and
// flight recorder. The supervisor keeps its own mapping, so what stands there outlives a SIGKILL
// of the writer. The writer is not trusted by the reader: every value read is only shown, compared
// or cut at its bound.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shared/clock.h"
#include "shared/result.h"
#include "shared/unique_fd.h"

namespace shared {

inline constexpr Milliseconds kHeartbeatPeriod{2500};
inline constexpr std::size_t kFlightEventBytes = 112;  // text of one event, cut at this
inline constexpr std::size_t kFlightEvents = 256;      // the newest so many are kept

/// The counters every process may use; names as they show in `GET /health` and `/metrics`.
enum class Counter : std::uint8_t {
    requests,
    calls,
    calls_in_flight,
    messages_in,
    messages_out,
    bytes_in,
    bytes_out,
    wakes,
    cells,
    kernels,
    errors,
    kCount,
};
const char* to_string(Counter counter);

struct FlightEvent {
    std::int64_t wall_ms = 0;
    std::string text;
};

class ProcessPage {
  public:
    /// Fresh, in a memfd of its own; the creator (supervisor) reads. Throws std::system_error.
    static ProcessPage create();
    /// The child's side. Errors: protocol when the descriptor is not such a page.
    static Result<ProcessPage> attach(UniqueFd memory);

    ProcessPage(ProcessPage&&) noexcept;
    ProcessPage& operator=(ProcessPage&&) noexcept;
    ~ProcessPage();

    int fd() const;  // to hand over; -1 after attach()

    // Writer's side; each is a few relaxed stores, callable from any thread.
    void beat(TimePoint now = Monotonic::now());
    void add(Counter counter, std::int64_t amount = 1);
    void set(Counter counter, std::int64_t value);
    /// One line of what just happened, without payload: "bridge opened pid 4711".
    void record(std::string_view event);

    // Reader's side.
    TimePoint last_beat() const;
    std::int64_t counter(Counter counter) const;
    std::vector<FlightEvent> recent() const;  // oldest first; torn ones left out

  private:
    struct State;
    explicit ProcessPage(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

}  // namespace shared
