// One accepted connection: bytes in and out over poll(2), every wait with a deadline and an ear for
// the server's stop. Knows nothing of HTTP. Used by one thread; only its waker is shared.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "api/http/server.h"
#include "shared/clock.h"
#include "shared/unique_fd.h"

namespace http {

class ClientSocket final : public Client {
  public:
    /// `socket`: connected and non-blocking. `stop_fd` (lent) becomes readable when the server
    /// stops and stays so.
    ClientSocket(shared::UniqueFd socket, int stop_fd, shared::Milliseconds write_deadline);
    ~ClientSocket() override;

    enum class Fill { more, ended, timed_out };
    /// Reads what there is, at least one byte, at most `max_bytes`, behind what is in input().
    /// `ended`: closed, broken, or the server stops.
    Fill fill(shared::TimePoint deadline, std::size_t max_bytes);
    std::string_view input() const { return std::string_view(in_).substr(taken_); }
    void take(std::size_t bytes);

    /// Queues; a large queue is sent at once. False: the client is gone, or took nothing for the
    /// write deadline. Once false, always false.
    bool write(std::string_view bytes);
    bool flush();

    /// Ends our side and reads the rest away for a moment, so that the client sees the answer and
    /// not a reset (it may still be sending what we refused).
    void linger();

    /// Gives back what buffers hold while nothing is in them: before a long wait.
    void shrink();

    std::shared_ptr<Waker> waker() override;
    Wake wait(shared::TimePoint until) override;

  private:
    class EventWaker;
    bool send_all(std::string_view bytes);

    shared::UniqueFd socket_;
    int stop_fd_;
    shared::Milliseconds write_deadline_;
    std::string in_;
    std::size_t taken_ = 0;
    std::string out_;
    bool broken_ = false;
    std::shared_ptr<EventWaker> waker_;
};

}  // namespace http
