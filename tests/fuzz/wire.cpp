// The four message variants and the bridge's frames. What is accepted must encode to as many bytes
// as were read.
#include <cstddef>
#include <string_view>

#include "shared/archive.h"
#include "shared/control_messages.h"
#include "shared/frame_codec.h"
#include "shared/messages.h"
#include "tests/fuzz/targets.h"

namespace {

template <class Message>
void decode_message(std::string_view bytes) {
    const auto message = shared::decode<Message>(bytes);
    if (message) ALBEDO_CHECK(shared::encode(*message).size() == bytes.size());
}

void decode_frames(std::string_view bytes) {
    shared::FrameDecoder decoder;
    const std::size_t piece = bytes.empty() ? 1 : static_cast<unsigned char>(bytes.front()) + 1U;
    std::size_t taken = 0;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
        decoder.feed(bytes.substr(at, piece));
        for (;;) {
            const auto frame = decoder.next();
            if (!frame) return;
            if (!*frame) break;
            const std::string again = shared::encode_frame(**frame);
            ALBEDO_CHECK(bytes.substr(taken, again.size()) == again);
            taken += again.size();
        }
    }
}

}  // namespace

void fuzz::wire(std::string_view bytes) {
    switch (choice(bytes, 5)) {
        case 0:
            return decode_message<shared::ToAgent>(bytes);
        case 1:
            return decode_message<shared::FromAgent>(bytes);
        case 2:
            return decode_message<shared::ToChild>(bytes);
        case 3:
            return decode_message<shared::FromChild>(bytes);
        default:
            return decode_frames(bytes);
    }
}
