#include "shared/frame_codec.h"

namespace shared {
namespace {

template <class Number>
void append_big_endian(std::string& out, Number number) {
    for (int shift = 8 * (static_cast<int>(sizeof number) - 1); shift >= 0; shift -= 8) {
        out += static_cast<char>(number >> shift);
    }
}

template <class Number>
Number read_big_endian(const char* bytes) {
    Number number = 0;
    for (std::size_t i = 0; i < sizeof number; ++i) {
        number = static_cast<Number>(number << 8 | static_cast<unsigned char>(bytes[i]));
    }
    return number;
}

}  // namespace

void append_frame(std::string& out, const Frame& frame) {
    ALBEDO_CHECK(frame.payload.size() <= kMaxFramePayloadBytes);
    out.reserve(out.size() + kFrameHeaderBytes + frame.payload.size());
    append_big_endian(out, static_cast<std::uint32_t>(frame.payload.size()));
    append_big_endian(out, frame.kernel);
    out += static_cast<char>(frame.kind);
    append_big_endian(out, frame.seq);
    append_big_endian(out, frame.ack);
    out += frame.payload;
}

std::string encode_frame(const Frame& frame) {
    std::string out;
    append_frame(out, frame);
    return out;
}

void FrameDecoder::feed(std::string_view bytes) {
    if (start_ > 0) {  // what was taken goes before more comes: at most one frame is kept
        buffer_.erase(0, start_);
        start_ = 0;
    }
    buffer_.append(bytes);
}

Result<std::optional<Frame>> FrameDecoder::next() {
    const std::size_t held = buffer_.size() - start_;
    if (held < kFrameHeaderBytes) return std::optional<Frame>();
    const char* head = buffer_.data() + start_;
    const auto length = read_big_endian<std::uint32_t>(head);
    if (length > kMaxFramePayloadBytes) {
        return Error{ErrorCode::protocol, "a frame of " + std::to_string(length) + " bytes", {}};
    }
    if (held < kFrameHeaderBytes + length) return std::optional<Frame>();
    Frame frame;
    frame.kernel = read_big_endian<std::uint32_t>(head + 4);
    frame.kind = static_cast<std::uint8_t>(head[8]);
    frame.seq = read_big_endian<std::uint64_t>(head + 9);
    frame.ack = read_big_endian<std::uint64_t>(head + 17);
    frame.payload.assign(head + kFrameHeaderBytes, length);
    start_ += kFrameHeaderBytes + length;
    return std::optional<Frame>(std::move(frame));
}

}  // namespace shared
