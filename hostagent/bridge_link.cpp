#include "hostagent/bridge_link.h"

#include <unistd.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cerrno>
#include <cstring>

#include "hostagent/ssh_failure.h"

namespace hostagent {

using shared::Frame;
using shared::FrameKind;
using shared::Monotonic;

namespace {
constexpr std::size_t kReadBytes = 128 * 1024;
constexpr std::size_t kKeptOutBytes = 256 * 1024;  // of a buffer that was long once
}  // namespace

BridgeLink::BridgeLink(const asio::any_io_executor& executor, std::unique_ptr<PipedProcess> process,
                       const std::string& marker, Events events)
    : process_(std::move(process)),
      events_(std::move(events)),
      marker_(marker),
      changed_(executor),
      room_(executor) {
    process_->in.non_blocking(true);
}

BridgeLink::~BridgeLink() = default;

asio::awaitable<std::variant<BridgeLink::Opened, Outcome>> BridgeLink::open(
    std::vector<std::string> argv, std::string marker, shared::TimePoint deadline, Events events) {
    const auto executor = co_await asio::this_coro::executor;
    Outcome outcome;
    auto process = PipedProcess::start(executor, argv);
    if (!process) {
        outcome.words = process.error().message;
        co_return outcome;
    }
    const std::shared_ptr<BridgeLink> self(
        new BridgeLink(executor, std::move(*process), marker, std::move(events)));
    asio::co_spawn(executor, read_frames(self), asio::detached);
    asio::co_spawn(executor, read_words(self), asio::detached);
    asio::co_spawn(executor, watch_end(self), asio::detached);
    co_await wait_for(self->changed_, deadline, [&] { return self->is_ready_ || self->over_; });
    if (self->is_ready_ && !self->over_) co_return Opened{self, std::move(self->ready_)};

    outcome.started = true;
    outcome.marked = self->marked_;
    outcome.timed_out = !self->over_;
    self->end();
    if (outcome.timed_out) self->process_->child.signal(SIGKILL);
    outcome.status = co_await self->process_->end_by(Monotonic::now() + kPipeGrace);
    outcome.noise = self->marker_.noise();
    outcome.words = self->words_;
    co_return outcome;
}

asio::awaitable<void> BridgeLink::read_frames(std::shared_ptr<BridgeLink> self) {
    std::vector<char> buffer(kReadBytes);
    while (!self->over_) {
        while (!self->over_ && self->is_ready_ && self->events_.full()) co_await self->room_.wait();
        if (self->over_) break;
        const auto [error, got] =
            co_await self->process_->out.async_read_some(asio::buffer(buffer), kByTuple);
        if (self->over_) break;
        if (error) {
            self->over("the connection ended");
            break;
        }
        if (!self->take({buffer.data(), got})) {
            self->over("the bridge broke the rules of its stream");
            break;
        }
    }
}

/// False: what came is no stream of frames.
bool BridgeLink::take(std::string_view bytes) {
    if (!marked_) {
        const auto rest = marker_.feed(bytes);
        if (!rest) return true;
        marked_ = true;
        bytes = *rest;
    }
    decoder_.feed(bytes);
    while (!over_) {
        auto frame = decoder_.next();
        if (!frame) return false;
        if (!*frame) return true;
        if (is_ready_) {
            events_.frame(std::move(**frame));
            continue;
        }
        if ((*frame)->kind != static_cast<std::uint8_t>(FrameKind::ready)) return false;
        ready_ = std::move((*frame)->payload);
        is_ready_ = true;
        changed_.notify();
    }
    return true;
}

asio::awaitable<void> BridgeLink::read_words(std::shared_ptr<BridgeLink> self) {
    std::array<char, 1024> piece;
    for (;;) {
        const auto [error, got] =
            co_await self->process_->err.async_read_some(asio::buffer(piece), kByTuple);
        if (error) break;
        keep_words(self->words_, std::string_view(piece.data(), got));
    }
}

asio::awaitable<void> BridgeLink::watch_end(std::shared_ptr<BridgeLink> self) {
    const auto [error] = co_await self->process_->ended.async_wait(
        asio::posix::stream_descriptor::wait_read, kByTuple);
    if (error || self->over_) co_return;
    // What is still in the pipe was sent: the reader gets it, if it hurries.
    co_await wait_for(self->changed_, Monotonic::now() + kPipeGrace, [&] { return self->over_; });
    self->over("the connection ended");
}

bool BridgeLink::send(const Frame& frame) {
    if (over_) return true;  // its end is told by `ended`
    const auto waiting = waiting_.find(frame.kernel);
    if (frame.kernel != 0 && waiting != waiting_.end() &&
        waiting->second + shared::kFrameHeaderBytes + frame.payload.size() > kKernelBytes)
        return false;
    send_always(frame);
    return true;
}

void BridgeLink::send_always(const Frame& frame) {
    if (over_) return;
    const std::size_t bytes = shared::kFrameHeaderBytes + frame.payload.size();
    waiting_[frame.kernel] += bytes;
    queue_.push_back({frame.kernel, bytes});
    shared::append_frame(out_, frame);
}

void BridgeLink::flush() {
    while (!over_ && !waiting_writable_ && written_ < out_.size()) {
        const ssize_t put =
            ::write(process_->in.native_handle(), out_.data() + written_, out_.size() - written_);
        if (put < 0) {
            if (errno == EINTR) continue;
            if (errno == EAGAIN || errno == EWOULDBLOCK) {
                wait_writable();
                return;
            }
            return;  // the reader sees the end
        }
        written_ += static_cast<std::size_t>(put);
        head_written_ += static_cast<std::size_t>(put);
        while (!queue_.empty() && head_written_ >= queue_.front().bytes) {
            const Queued done = queue_.front();
            queue_.pop_front();
            head_written_ -= done.bytes;
            const auto waiting = waiting_.find(done.kernel);
            waiting->second -= done.bytes;
            if (waiting->second == 0) waiting_.erase(waiting);
        }
    }
    if (written_ == out_.size()) {
        out_.clear();
        if (out_.capacity() > kKeptOutBytes) out_.shrink_to_fit();
        written_ = 0;
    }
}

void BridgeLink::wait_writable() {
    if (written_ > kKeptOutBytes) {
        out_.erase(0, written_);
        written_ = 0;
    }
    waiting_writable_ = true;
    process_->in.async_wait(asio::posix::stream_descriptor::wait_write,
                            [self = shared_from_this()](const boost::system::error_code& error) {
                                self->waiting_writable_ = false;
                                if (!error) self->flush();
                            });
}

void BridgeLink::over(const std::string& why) {
    if (over_) return;
    const bool told = is_ready_;
    const std::string last = last_words(words_);
    end();
    if (told) events_.ended(last.empty() ? why : last);
}

void BridgeLink::end() {
    over_ = true;
    boost::system::error_code ignored;
    process_->in.close(ignored);
    process_->out.close(ignored);
    changed_.notify();
    room_.notify();
    // The launcher is told by the end of its stdin; one that does not listen is killed by its
    // owner.
    if (is_ready_) {
        process_->child.signal(SIGKILL);
        process_->ended.cancel(ignored);
        process_->err.close(ignored);
    }
}

}  // namespace hostagent
