#include "api/providers/retry.h"

#include <time.h>

#include <algorithm>
#include <string>

namespace providers {
namespace {

bool passes_by_itself(const Failure& failure) {
    switch (failure.kind) {
        case FailureKind::transport:
            return true;
        case FailureKind::status:
            return failure.status == 429 || failure.status == 529 ||
                   (failure.status >= 502 && failure.status <= 504);
        case FailureKind::provider:
            return failure.retryable;
        default:
            return false;
    }
}

}  // namespace

std::optional<shared::Milliseconds> retry_pause(const Failure& failure, int attempts,
                                                double jitter) {
    if (failure.output_started || attempts >= kMaxAttempts || !passes_by_itself(failure))
        return std::nullopt;
    auto pause = kFirstBackoff;
    for (int doubled = 1; doubled < attempts && pause < kMaxBackoff; ++doubled) pause *= 2;
    pause = std::min(pause, kMaxBackoff);
    pause -= shared::Milliseconds(static_cast<std::int64_t>(pause.count() * 0.5 * jitter));
    if (failure.retry_after) {
        auto told = std::min(*failure.retry_after, kMaxRetryAfter);
        told += shared::Milliseconds(static_cast<std::int64_t>(told.count() * 0.1 * jitter));
        pause = std::max(pause, told);
    }
    return pause;
}

std::optional<shared::Milliseconds> parse_retry_after(std::string_view value,
                                                      std::int64_t wall_now_ms) {
    while (value.starts_with(' ')) value.remove_prefix(1);
    while (value.ends_with(' ')) value.remove_suffix(1);
    if (value.empty()) return std::nullopt;
    if (value.find_first_not_of("0123456789") == value.npos) {
        if (value.size() > 9) return kMaxRetryAfter;
        return std::min<shared::Milliseconds>(std::chrono::seconds(std::stol(std::string(value))),
                                              kMaxRetryAfter);
    }
    // "Sun, 06 Nov 1994 08:49:37 GMT": the only form that may still be sent (RFC 9110, 5.6.7). Read
    // by hand, as strptime's names depend on the locale.
    if (value.size() != 29 || !value.ends_with(" GMT")) return std::nullopt;
    static constexpr std::string_view months = "JanFebMarAprMayJunJulAugSepOctNovDec";
    auto number = [&](std::size_t at, std::size_t size) {
        int result = 0;
        for (char digit : value.substr(at, size)) {
            if (digit < '0' || digit > '9') return -1;
            result = result * 10 + (digit - '0');
        }
        return result;
    };
    tm when{};
    const auto month = months.find(value.substr(8, 3));
    when.tm_mday = number(5, 2);
    when.tm_year = number(12, 4) - 1900;
    when.tm_hour = number(17, 2);
    when.tm_min = number(20, 2);
    when.tm_sec = number(23, 2);
    if (month == months.npos || month % 3 != 0 || when.tm_mday < 1 || when.tm_year < 70 ||
        when.tm_hour < 0 || when.tm_min < 0 || when.tm_sec < 0)
        return std::nullopt;
    when.tm_mon = static_cast<int>(month / 3);
    const auto ms = static_cast<std::int64_t>(timegm(&when)) * 1000 - wall_now_ms;
    return shared::Milliseconds(std::clamp<std::int64_t>(ms, 0, kMaxRetryAfter.count()));
}

}  // namespace providers
