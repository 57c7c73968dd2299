// Where a workspace is, as a text a person writes: "/abs", "~", "~/x", "[user@]host:/abs",
// "[user@]host:~/x", an IPv6 host in brackets. Pure: nothing is looked up, here or elsewhere.
//
// A text is remote when it starts with neither "/" nor "~" and what stands before its first ":"
// (behind a bracketed host: the one after the bracket) holds no "/". Folder names may hold every
// byte but NUL. Host and user start with a letter or digit, so neither can be an option of ssh,
// and hold no space, control character or character that a shell or ssh reads as its own.
#pragma once

#include <string>
#include <string_view>

#include "shared/result.h"

namespace workspaces {

struct Location {
    std::string user;  // empty: whom ssh picks
    std::string host;  // empty: this machine. IPv6 without brackets
    /// Normalised: no "//", ".", "..", no "/" at the end. Absolute, or what follows "~/" when
    /// `is_home_relative` ("" is the home itself).
    std::string path;
    bool is_home_relative = false;

    bool is_local() const { return host.empty(); }
    /// What ssh takes as its target: "user@host", "host"; "local" for this machine.
    std::string target() const;
    /// Canonical: one folder, one text. parse(text()) gives the same location.
    std::string text() const;
    /// The text that stands before the path in answers about this place: "user@host:", or "".
    std::string prefix() const;
    /// A short name for people: "host", with "user@" when the user is not ssh's own choice;
    /// "local" here.
    std::string label(bool show_user = true) const;

    bool operator==(const Location&) const = default;
};

/// Errors: invalid, with the cause: "must be absolute", "not a valid host", "not a valid user",
/// "must not hold a NUL byte", "is longer than 4096 bytes". "~name" is refused: whose home that is
/// only a shell could say.
shared::Result<Location> parse_location(std::string_view text);

/// A home-relative location once `home` (absolute) is known; an absolute one as it is.
Location resolve(Location location, std::string_view home);

/// Lexically: no "//", ".", "..", trailing "/". ".." at the root stays there.
std::string normalise_path(std::string_view absolute);

/// The name of a workspace's folder of memories: each byte outside [A-Za-z0-9] becomes "-".
std::string slug(std::string_view location_text);

/// A host as ssh may be given it, alone or as "user@host": for `/hosts/:host`. Errors: invalid.
shared::Result<void> check_target(std::string_view target);

}  // namespace workspaces
