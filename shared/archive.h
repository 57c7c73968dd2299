// Typed messages to bytes and back: a cereal archive that never believes a size. Whatever the bytes
// say, decoding allocates at most a small multiple of their number and ends in a value or in an
// Error `protocol`. (Stock cereal let a 12-byte message allocate 3 GiB: measured.)
//
// Numbers are in the machine's own order: both ends are processes of one machine and one build.
#pragma once

#include <string>
#include <string_view>

#include "shared/result.h"

namespace shared {

/// Defined for ToAgent, FromAgent, ToChild and FromChild.
template <class Message>
std::string encode(const Message& message);

/// Errors: protocol (cut short, a size over what remains, an unknown alternative, bytes left over).
template <class Message>
Result<Message> decode(std::string_view bytes);

}  // namespace shared
