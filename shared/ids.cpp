#include "shared/ids.h"

#include <sys/random.h>

#include <cerrno>
#include <mutex>
#include <system_error>

namespace shared {
namespace {

void fill_random(std::uint8_t* bytes, std::size_t size) {
    std::size_t filled = 0;
    while (filled < size) {
        const ssize_t got = ::getrandom(bytes + filled, size - filled, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw std::system_error(errno, std::generic_category(), "getrandom");
        filled += static_cast<std::size_t>(got);
    }
}

int hex_value(char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
    return -1;
}

constexpr char kHex[] = "0123456789abcdef";

bool dash_before(std::size_t byte) {
    return byte == 4 || byte == 6 || byte == 8 || byte == 10;
}

}  // namespace

Uuid Uuid::make_v7() {
    static std::mutex mutex;
    static std::uint64_t newest =
        0;  // milliseconds << 12 | counter: keeps one process's ids in order
    const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::system_clock::now().time_since_epoch());
    Uuid uuid;
    fill_random(uuid.bytes.data(), uuid.bytes.size());
    std::uint64_t stamp;
    {
        const std::lock_guard lock(mutex);
        const std::uint64_t fresh = static_cast<std::uint64_t>(now.count()) << 12;
        newest = stamp = fresh > newest ? fresh : newest + 1;
    }
    for (std::size_t byte = 0; byte < 6; ++byte) {
        uuid.bytes[byte] = static_cast<std::uint8_t>(stamp >> (52 - 8 * byte));
    }
    uuid.bytes[6] = static_cast<std::uint8_t>(0x70 | ((stamp >> 8) & 0x0f));
    uuid.bytes[7] = static_cast<std::uint8_t>(stamp);
    uuid.bytes[8] = static_cast<std::uint8_t>(0x80 | (uuid.bytes[8] & 0x3f));
    return uuid;
}

std::optional<Uuid> Uuid::parse(std::string_view text) {
    if (text.size() != 36) return std::nullopt;
    Uuid uuid;
    std::size_t at = 0;
    for (std::size_t byte = 0; byte < 16; ++byte) {
        if (dash_before(byte) && text[at++] != '-') return std::nullopt;
        const int high = hex_value(text[at]);
        const int low = hex_value(text[at + 1]);
        if (high < 0 || low < 0) return std::nullopt;
        uuid.bytes[byte] = static_cast<std::uint8_t>(high << 4 | low);
        at += 2;
    }
    return uuid;
}

std::string Uuid::text() const {
    std::string text;
    text.reserve(36);
    for (std::size_t byte = 0; byte < 16; ++byte) {
        if (dash_before(byte)) text += '-';
        text += kHex[bytes[byte] >> 4];
        text += kHex[bytes[byte] & 0x0f];
    }
    return text;
}

std::chrono::system_clock::time_point Uuid::made_at() const {
    std::int64_t ms = 0;
    for (std::size_t byte = 0; byte < 6; ++byte) ms = ms << 8 | bytes[byte];
    return std::chrono::system_clock::time_point(std::chrono::milliseconds(ms));
}

std::string random_hex(std::size_t bytes) {
    std::string raw(bytes, '\0');
    fill_random(reinterpret_cast<std::uint8_t*>(raw.data()), raw.size());
    std::string text;
    for (const char each : raw) {
        text += kHex[static_cast<std::uint8_t>(each) >> 4];
        text += kHex[static_cast<std::uint8_t>(each) & 0x0f];
    }
    return text;
}

}  // namespace shared
