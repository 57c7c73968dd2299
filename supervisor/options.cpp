#include "supervisor/options.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "shared/home.h"

namespace supervisor {
namespace {

using shared::Error;
using shared::ErrorCode;

template <class Number>
shared::Result<Number> parse_number(std::string_view name, std::string_view text, Number least,
                                    Number most) {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || !(value >= least) ||
        !(value <= most)) {
        return Error{ErrorCode::invalid,
                     std::string(name) + ": not a usable number: " + std::string(text),
                     {}};
    }
    return value;
}

}  // namespace

shared::Result<Options> parse_options(int argc, const char* const* argv) {
    Options options;
    std::filesystem::path home;
    for (int i = 1; i < argc; ++i) {
        const std::string_view name = argv[i];
        if (name == "--foreground") {
            options.foreground = true;
            continue;
        }
        if (name != "--home" && name != "--ready-fd" && name != "--time-scale") {
            return Error{ErrorCode::invalid, "unknown argument: " + std::string(name), {}};
        }
        if (i + 1 == argc) {
            return Error{ErrorCode::invalid, std::string(name) + " needs a value", {}};
        }
        const std::string_view value = argv[++i];
        if (name == "--home") {
            home = value;
        } else if (name == "--ready-fd") {
            auto fd = parse_number<int>(name, value, 3, 1 << 20);
            if (!fd) return fd.error();
            options.ready_fd = *fd;
        } else {
            auto scale = parse_number<double>(name, value, 0.001, 1000.0);
            if (!scale) return scale.error();
            options.time_scale = *scale;
        }
    }
    if (const char* port = std::getenv("ALBEDO_PORT"); port && *port) {
        auto number = parse_number<std::uint16_t>("ALBEDO_PORT", port, 0, 65535);
        if (!number) return number.error();
        options.port = *number;
    }
    options.home = std::filesystem::absolute(home.empty() ? shared::default_home() : home);
    return options;
}

}  // namespace supervisor
