// Bridge frames as bytes: the stream between a hostagent and the bridge on its host
// (docs/PROTOCOL.md). Pure; no I/O. Golden frames in tests/data/frames are read and written by this
// file and by bundle/albedo_frames.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "shared/result.h"

namespace shared {

inline constexpr std::size_t kFrameHeaderBytes = 25;
inline constexpr std::size_t kMaxFramePayloadBytes = 8 * 1024 * 1024;

/// Kinds of frames; numbers are on the wire.
enum class FrameKind : std::uint8_t {
    // The link: between api and keeper, copied by agent and bridge.
    control = 1,     // JSON, numbered
    output = 2,      // bytes of a cell's output: cell id 16, offset u64, bytes; seq 0
    ack = 3,         // nothing but the header's ack; seq 0
    hello = 4,       // JSON, keeper's first frame of an attachment; seq 0
    refused = 5,     // JSON {reason}, keeper's last frame of an attachment; seq 0
    superseded = 6,  // JSON {owner}, keeper's last frame: a newer attachment took over; seq 0
    credit = 7,      // JSON {cell, from, until}; seq 0
    page = 8,        // request JSON, answer: id u64, cell 16, offset u64, flags u8, bytes; seq 0
    query = 9,       // JSON {id, ...}, answered by a query frame with the same id; seq 0
    // Between agent and bridge alone.
    start = 32,
    open = 33,
    opened = 34,
    close = 35,
    closed = 36,
    call = 37,    // JSON {id, op, ...}
    answer = 38,  // JSON {id, ...}
    ready = 39,   // bridge's first frame, JSON
};

struct Frame {
    std::uint32_t kernel = 0;
    std::uint8_t kind = 0;
    std::uint64_t seq = 0;
    std::uint64_t ack = 0;
    std::string payload;
    bool operator==(const Frame&) const = default;
};

/// The frame's bytes. A payload over kMaxFramePayloadBytes is the caller's bug.
std::string encode_frame(const Frame& frame);
void append_frame(std::string& out, const Frame& frame);

/// Takes bytes in pieces of any size, gives whole frames. Keeps at most one frame and one piece.
class FrameDecoder {
  public:
    void feed(std::string_view bytes);
    /// Errors: protocol, for a length over the limit; the decoder is of no use afterwards.
    Result<std::optional<Frame>> next();

  private:
    std::string buffer_;
    std::size_t start_ = 0;
};

}  // namespace shared
