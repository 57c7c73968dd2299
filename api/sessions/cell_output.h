// What the api holds of one cell's output: a bounded run of bytes that ends where the kernel's
// sending stands, filled by credit that follows the fastest reader. Pure; the link sends what it
// asks for.
//
// The first kFirstCredit bytes come unasked with the execute frame. After that nothing is pulled
// unless somebody reads. Held are the newest kHotBytes; a reader that fell behind them asks the
// kernel for pages. The kernel never sends a byte twice in one attachment, so the `from` of more
// credit is simply the end of what is here.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace sessions {

inline constexpr std::uint64_t kFirstCredit = 64 * 1024;
inline constexpr std::uint64_t kWindowBytes = 1024 * 1024;
inline constexpr std::uint64_t kHotBytes = 2 * kWindowBytes;

class CellOutput {
  public:
    struct Window {
        std::uint64_t from = 0;
        std::uint64_t until = 0;
    };
    /// Shares the bytes, so that a reader copies them without the Monitor.
    struct Piece {
        std::shared_ptr<const std::string> payload;
        std::string_view bytes;
    };

    /// `first_credit`: what went out with the execute frame.
    explicit CellOutput(std::uint64_t first_credit) : until_(first_credit) {}

    std::uint64_t begin() const { return begin_; }
    std::uint64_t end() const { return end_; }

    /// Bytes from the kernel. What overlaps is dropped; a jump ahead starts the run anew there.
    void append(std::uint64_t offset, std::shared_ptr<const std::string> payload, std::size_t skip);
    /// What is held at `offset`, at most `limit` bytes and perhaps fewer; absent if not held.
    std::optional<Piece> read(std::uint64_t offset, std::size_t limit) const;
    /// A reader wants bytes from `offset` on. The credit to send, if one is due.
    std::optional<Window> want(std::uint64_t offset);

    void add_reader() { ++readers_; }
    void drop_reader() { --readers_; }
    int readers() const { return readers_; }

    /// Credit belongs to one attachment: none is left.
    void detached() { until_ = end_; }
    /// The window to ask for with the next attach, if somebody reads.
    std::optional<Window> resume();
    /// Lets the bytes go; later readers ask the kernel.
    void clear();

  private:
    struct Chunk {
        std::uint64_t offset;
        std::shared_ptr<const std::string> payload;
        std::string_view bytes;
    };
    std::deque<Chunk> chunks_;
    std::uint64_t begin_ = 0;
    std::uint64_t end_ = 0;
    std::uint64_t until_ = 0;
    int readers_ = 0;
};

}  // namespace sessions
