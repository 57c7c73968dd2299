// The stream to one bridge: its process, the marker, frames both ways.
//
//  1. open() spawns what launches the bridge, skips noise up to the marker line, and waits for the
//     `ready` frame. Nothing is sent before the marker was read.
//  2. Frames go out in the order of send(), all that are there in one write. Toward one kernel at
//  most
//     kKernelBytes wait; what is beyond is refused, and the owner closes that attachment.
//  3. Frames come in through Events::frame, payload unread. While Events::full() says so nothing is
//  read,
//     until resume(): the pipe, and in the end the kernel, feel it.
//  4. Events::ended is called once, when the stream is over for whatever reason; not after end().
//
// Must not know what frames mean, beyond `ready` being first.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <variant>

#include "hostagent/command.h"
#include "hostagent/marker.h"
#include "shared/frame_codec.h"

namespace hostagent {

inline constexpr std::size_t kKernelBytes = 1u << 20;  // queued toward one kernel, or one frame

class BridgeLink : public std::enable_shared_from_this<BridgeLink> {
  public:
    struct Events {
        std::function<void(shared::Frame)> frame;
        std::function<bool()> full;
        std::function<void(std::string detail)> ended;
    };
    struct Opened {
        std::shared_ptr<BridgeLink> link;
        std::string ready;  // the bridge's JSON
    };

    /// The link, or how it failed.
    static asio::awaitable<std::variant<Opened, Outcome>> open(std::vector<std::string> argv,
                                                               std::string marker,
                                                               shared::TimePoint deadline,
                                                               Events events);
    ~BridgeLink();

    pid_t pid() const { return process_->child.pid(); }
    /// False: that kernel does not read, nothing was queued.
    bool send(const shared::Frame& frame);
    /// The same for a frame that says that nothing more is to be sent: past the bound.
    void send_always(const shared::Frame& frame);
    /// Writes what was sent; to be called at the end of each batch.
    void flush();
    /// Room came up where Events::full() said there was none.
    void resume() { room_.notify(); }
    /// Drops the link; Events are not called any more.
    void end();

  private:
    BridgeLink(const asio::any_io_executor& executor, std::unique_ptr<PipedProcess> process,
               const std::string& marker, Events events);
    static asio::awaitable<void> read_frames(std::shared_ptr<BridgeLink> self);
    static asio::awaitable<void> read_words(std::shared_ptr<BridgeLink> self);
    static asio::awaitable<void> watch_end(std::shared_ptr<BridgeLink> self);
    bool take(std::string_view bytes);
    void wait_writable();
    void over(const std::string& why);

    struct Queued {
        std::uint32_t kernel;
        std::size_t bytes;
    };

    std::unique_ptr<PipedProcess> process_;
    Events events_;
    MarkerScanner marker_;
    shared::FrameDecoder decoder_;
    std::string ready_;
    std::string words_;
    Event changed_;  // ready came, or the end
    Event room_;
    bool marked_ = false;
    bool is_ready_ = false;
    bool over_ = false;

    std::string out_;
    std::size_t written_ = 0;                       // of out_
    std::deque<Queued> queue_;                      // what out_ consists of
    std::size_t head_written_ = 0;                  // of queue_.front()
    std::map<std::uint32_t, std::size_t> waiting_;  // bytes per kernel
    bool waiting_writable_ = false;
};

}  // namespace hostagent
