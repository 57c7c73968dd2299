// The program that asks a host what it is, and the reading of its answer. Pure.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "hostagent/ssh_failure.h"
#include "shared/clock.h"
#include "shared/messages.h"

namespace hostagent {

inline constexpr shared::Milliseconds kProbeDeadline{30'000};
/// For the login shell's start-up files and Python; then it is tried without the login shell.
inline constexpr shared::Milliseconds kLoginDeadline{20'000};

/// What goes to the loader's stdin, for Python of any version 3. `folder`, absolute or below `~`,
/// is where the bundle would stand.
std::string probe_input(const std::string& folder);

struct Probed {
    shared::HostReport facts;
    bool staged = false;  // the bundle's folder is there
};

/// What the host says of itself, or why it cannot serve.
std::variant<Probed, Verdict> read_probe(std::string_view answer);

/// The verdict on a place that was reached and did not print the marker.
Verdict no_python(std::string_view said, std::string_view words);

}  // namespace hostagent
