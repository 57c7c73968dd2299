#include "supervisor/control.h"

#include <utility>

#include "shared/archive.h"

namespace supervisor {
namespace {

// So many messages of one child are taken before the loop turns to the others.
constexpr int kMessagesPerTurn = 32;

}  // namespace

ControlLink::ControlLink(boost::asio::io_context& loop, shared::ControlSocket socket,
                         Handlers handlers)
    : socket_(std::move(socket)),
      handlers_(std::move(handlers)),
      watch_(std::make_unique<FdWatch>(loop, socket_.fd(), [this] { read_some(); })) {}

shared::Result<void> ControlLink::send(const shared::ToChild& message,
                                       const std::vector<int>& fds) {
    auto sent = socket_.send(shared::encode(message), fds);
    flush_later();
    return sent;
}

void ControlLink::flush_later() {
    if (!watch_ || socket_.queued() == 0) return;
    watch_->once_writable([this] {
        // A broken socket shows in reading, too; there it is reported.
        (void)socket_.flush();
        flush_later();
    });
}

void ControlLink::read_some() {
    for (int i = 0; i < kMessagesPerTurn && watch_; ++i) {
        auto received = socket_.receive();
        if (!received) return stop(received.error().message);
        if (!*received) return;
        auto& message = **received;
        if (message.bytes.empty()) return stop("");
        auto decoded = shared::decode<shared::FromChild>(message.bytes);
        if (!decoded) return stop("said something unreadable: " + decoded.error().message);
        handlers_.said(std::move(*decoded));
    }
}

void ControlLink::stop(std::string why) {
    watch_.reset();
    handlers_.broken(std::move(why));
}

}  // namespace supervisor
