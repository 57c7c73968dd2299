// The supervisor's end of one child's control socket: typed messages out, typed messages in.
//
//  1. make_control_pair() before the spawn; the far end becomes the child's descriptor kControlFd.
//  2. send() encodes and sends with its descriptors, or queues; it never blocks. More than 64
//     queued messages are an Error `overloaded`, and the owner restarts that child.
//  3. What the child sends is decoded within bounds. What does not decode, an end of the stream or
//  a
//     broken socket is reported once by `broken`, and nothing more is read.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shared/control_messages.h"
#include "shared/control_socket.h"
#include "shared/result.h"
#include "supervisor/loop_watch.h"

namespace supervisor {

class ControlLink {
  public:
    struct Handlers {
        std::function<void(shared::FromChild)> said;
        /// The peer closed its end (empty text), or broke a rule (which one).
        std::function<void(std::string)> broken;
    };

    ControlLink(boost::asio::io_context& loop, shared::ControlSocket socket, Handlers handlers);

    /// The descriptors are lent for the call. Errors: overloaded, failed.
    shared::Result<void> send(const shared::ToChild& message, const std::vector<int>& fds = {});
    /// Takes what has arrived, a bounded amount. For the loop, and once more at the child's death.
    void read_some();

  private:
    void flush_later();
    void stop(std::string why);

    shared::ControlSocket socket_;
    Handlers handlers_;
    std::unique_ptr<FdWatch> watch_;  // gone once the link is broken
};

}  // namespace supervisor
