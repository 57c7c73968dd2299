// Typed messages to bytes and back: cereal's portable binary archive, with an input that never
// believes a size. Whatever the bytes say, decoding allocates at most a small multiple of their
// number, nests at most kMaxDepth, and ends in a value or an Error `protocol`.
#pragma once

#include <string>
#include <string_view>

#include "shared/result.h"

namespace shared {

/// Defined for the message types of messages.h and control_messages.h, in archive.cpp.
template <class Message>
std::string encode(const Message& message);

/// Errors: protocol (truncated, a size over what remains, an unknown alternative, bytes left over).
template <class Message>
Result<Message> decode(std::string_view bytes);

}  // namespace shared
