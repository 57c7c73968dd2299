#include "api/agents/loop.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <utility>

namespace agents {

namespace asio = boost::asio;

struct Loop::State {
    asio::io_context context;  // post() and at() come from other threads
    asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
};

struct Loop::Watch::State : std::enable_shared_from_this<Loop::Watch::State> {
    State(asio::io_context& context, int fd, std::function<void()> handler)
        : descriptor(context, fd), readable(std::move(handler)) {}

    void wait() {
        descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                              [self = shared_from_this()](const boost::system::error_code& error) {
                                  if (error || !self->descriptor.is_open()) return;
                                  self->readable();
                                  if (self->descriptor.is_open()) self->wait();
                              });
    }
    void stop() {
        if (descriptor.is_open()) descriptor.release();  // cancels; the owner closes
    }

    asio::posix::stream_descriptor descriptor;
    std::function<void()> readable;
};

Loop::Loop() : state_(std::make_unique<State>()) {}
Loop::~Loop() = default;

void Loop::run() {
    state_->context.run();
}
void Loop::stop() {
    state_->context.stop();
}

void Loop::post(std::function<void()> handler) {
    asio::post(state_->context, std::move(handler));
}

void Loop::at(shared::TimePoint when, std::function<void()> handler) {
    auto timer = std::make_shared<asio::steady_timer>(state_->context, when);
    timer->async_wait(
        [timer, handler = std::move(handler)](const boost::system::error_code& error) {
            if (!error) handler();
        });
}

Loop::Watch Loop::watch(int fd, std::function<void()> readable) {
    Watch watch;
    watch.state_ = std::make_shared<Watch::State>(state_->context, fd, std::move(readable));
    watch.state_->wait();
    return watch;
}

Loop::Watch::Watch(Watch&&) noexcept = default;
Loop::Watch& Loop::Watch::operator=(Watch&& other) noexcept {
    if (this != &other) {
        if (state_) state_->stop();
        state_ = std::move(other.state_);
    }
    return *this;
}
Loop::Watch::~Watch() {
    if (state_) state_->stop();
}

}  // namespace agents
