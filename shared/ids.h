// Strong ids. An operation, a session and a cell are UUIDs of version 7, made by clients or by
// the api; a cell's id is its operation's. Nothing here does I/O but ask the kernel for random
// bits.
#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shared {

/// 128 bits in the byte order of their text form.
struct Uuid {
    std::array<std::uint8_t, 16> bytes{};

    /// Version 7: 48 bits of Unix milliseconds, then random bits (RFC 9562, 5.7). Ids made by one
    /// process are strictly increasing.
    static Uuid make_v7();
    /// Lower or upper case, with dashes, 36 characters; nothing else parses.
    static std::optional<Uuid> parse(std::string_view text);

    std::string text() const;  // 36 lower-case characters
    int version() const { return bytes[6] >> 4; }
    /// When a version 7 id was made, as its maker's clock said.
    std::chrono::system_clock::time_point made_at() const;

    auto operator<=>(const Uuid&) const = default;
};

/// An id that cannot be taken for another kind of id.
template <class Tag>
struct Id {
    Uuid uuid;

    static Id make() { return {Uuid::make_v7()}; }
    static std::optional<Id> parse(std::string_view text) {
        if (auto uuid = Uuid::parse(text)) return Id{*uuid};
        return std::nullopt;
    }
    std::string text() const { return uuid.text(); }
    auto operator<=>(const Id&) const = default;
};

using SessionId = Id<struct SessionTag>;
using OperationId = Id<struct OperationTag>;
using CellId = Id<struct CellTag>;

/// `bytes` random bytes from getrandom(2) in lower-case hex: tokens, nonces, run directory names.
std::string random_hex(std::size_t bytes);

}  // namespace shared
