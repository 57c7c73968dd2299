#include "supervisor/loop_watch.h"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <utility>

namespace supervisor {

namespace asio = boost::asio;

struct FdWatch::State {
    State(asio::io_context& loop, int fd) : descriptor(loop, fd) {}
    asio::posix::stream_descriptor descriptor;
    std::function<void()> readable;
    bool awaits_writable = false;
    bool dropped = false;
};

FdWatch::FdWatch(asio::io_context& loop, int fd, std::function<void()> readable)
    : state_(std::make_shared<State>(loop, fd)) {
    state_->readable = std::move(readable);
    wait(state_);
}

void FdWatch::wait(const std::shared_ptr<State>& state) {
    state->descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                                 [state](const boost::system::error_code& error) {
                                     if (error || state->dropped) return;
                                     state->readable();
                                     if (!state->dropped) wait(state);
                                 });
}

void FdWatch::once_writable(std::function<void()> writable) {
    if (std::exchange(state_->awaits_writable, true)) return;
    state_->descriptor.async_wait(
        asio::posix::stream_descriptor::wait_write,
        [state = state_, writable = std::move(writable)](const boost::system::error_code& error) {
            state->awaits_writable = false;
            if (!error && !state->dropped) writable();
        });
}

FdWatch::~FdWatch() {
    state_->dropped = true;
    state_->descriptor.release();  // lent: it stays open
}

struct Alarm::State {
    explicit State(asio::io_context& loop) : timer(loop) {}
    asio::steady_timer timer;
    std::function<void()> rang;
    std::uint64_t setting = 0;  // an expiry that was queued under an older one is void
};

Alarm::Alarm(asio::io_context& loop, std::function<void()> rang)
    : state_(std::make_shared<State>(loop)) {
    state_->rang = std::move(rang);
}

void Alarm::set(shared::TimePoint when) {
    const auto setting = ++state_->setting;
    state_->timer.expires_at(when);
    state_->timer.async_wait([state = state_, setting](const boost::system::error_code& error) {
        if (!error && state->setting == setting) state->rang();
    });
}

void Alarm::clear() {
    ++state_->setting;
    state_->timer.cancel();
}

Alarm::~Alarm() {
    clear();
}

}  // namespace supervisor
