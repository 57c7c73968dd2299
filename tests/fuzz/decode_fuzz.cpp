// Fuzzes what decodes bytes of peers: the four message variants and the bridge's frames. The first
// byte chooses which. What is accepted must encode to as many bytes as were read.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "shared/archive.h"
#include "shared/control_messages.h"
#include "shared/frame_codec.h"
#include "shared/messages.h"

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

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
    switch (data[0] % 5) {
        case 0:
            decode_message<shared::ToAgent>(bytes);
            break;
        case 1:
            decode_message<shared::FromAgent>(bytes);
            break;
        case 2:
            decode_message<shared::ToChild>(bytes);
            break;
        case 3:
            decode_message<shared::FromChild>(bytes);
            break;
        default:
            decode_frames(bytes);
    }
    return 0;
}
