// The bundle: the Python files that run on a host, as one deterministic tar built into the program.
#pragma once

#include <string>
#include <string_view>

namespace hostagent {

/// A ustar archive of plain files.
std::string_view bundle_tar();

/// SHA-256 over names, modes and contents, 64 lower-case hex characters.
std::string bundle_digest();

}  // namespace hostagent
