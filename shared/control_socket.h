// One end of the control socket between the supervisor and a child: SOCK_SEQPACKET, so one
// datagram is one message, with descriptors riding along by SCM_RIGHTS.
//
// Sending never blocks: what the kernel does not take waits here, at most kMaxControlQueue
// messages. The peer is not trusted: a message over kMaxControlBytes, or more descriptors than
// kMaxControlDescriptors, is an Error. One caller at a time.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/control_messages.h"
#include "shared/result.h"
#include "shared/unique_fd.h"

namespace shared {

inline constexpr std::size_t kMaxControlQueue = 64;

struct ControlMessage {
    std::string bytes;  // empty: the peer has closed its end
    std::vector<UniqueFd> descriptors;
    /// Descriptors were lost on the way (MSG_CTRUNC, this process has too many open): the handover
    /// failed and has to be asked for again.
    bool descriptors_lost = false;
};

class ControlSocket {
  public:
    /// Both ends, close-on-exec and non-blocking. Throws std::system_error.
    static std::pair<ControlSocket, ControlSocket> make_pair();
    explicit ControlSocket(UniqueFd fd);

    int fd() const { return fd_.get(); }

    /// Sends, or queues with duplicates of the lent descriptors. Errors: overloaded (queue full,
    /// nothing queued), too_large, failed (the peer is gone).
    Result<void> send(std::string_view bytes, const std::vector<int>& descriptors = {});
    /// Sends what waits, as far as the kernel takes it. Errors: failed.
    Result<void> flush();
    std::size_t queued() const { return queue_.size(); }

    /// The next message, or nothing when none is there. Errors: protocol, failed.
    Result<std::optional<ControlMessage>> receive();

  private:
    UniqueFd fd_;
    std::deque<ControlMessage> queue_;
};

}  // namespace shared
