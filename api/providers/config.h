// `$ALBEDO_HOME/config.json`: which models there are and how they are reached.
//
//   {"active": NAME, "providers": {NAME: {"baseUrl", "model",
//      "protocol": "responses" | "chat_completions" | "anthropic",
//      "apiKey" | "apiKeyEnv" | "apiKeyFile", "headers"?: {NAME: TEXT}, "timeoutSeconds"?}}}
//
// The file is a person's: it is read, never written. It is read again when it has changed; while it
// is broken each use says where, and all else of the daemon goes on. Without any provider there is
// the profile `demo`, which needs no account.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "api/providers/endpoint.h"
#include "shared/result.h"

namespace providers {

inline constexpr std::size_t kMaxConfigBytes = 1 << 20;
inline constexpr std::size_t kMaxKeyBytes = 16 << 10;
inline constexpr std::string_view kDemoProfile = "demo";

enum class Protocol { responses, chat_completions, anthropic, demo };
const char* to_string(Protocol protocol);

struct Profile {
    std::string name;
    Protocol protocol = Protocol::responses;
    std::string base_url;
    std::string model;
    std::string key;  // at most one of these three is set
    std::string key_variable;
    std::string key_file;
    std::vector<std::pair<std::string, std::string>> headers;
    std::chrono::seconds timeout{120};  // the longest silence while an answer comes
};

struct Config {
    std::string active;
    std::map<std::string, Profile> profiles;  // `demo` among them unless one has that name
    std::vector<std::string> warnings;        // unknown keys, each by its place
    std::vector<std::string> key_variables;   // to be kept from hosts and kernels

    /// An empty name means the active one. Errors: invalid, with the names there are.
    shared::Result<Profile> profile(const std::string& name) const;
};

/// Pure. Errors: invalid, with line and column for broken JSON, with the key's place otherwise.
shared::Result<Config> parse_config(std::string_view text);

/// The key, or "" for a profile that names none. Errors: invalid (variable not set, file not
/// readable or empty), never with the key in it.
shared::Result<std::string> read_key(const Profile& profile, const Environment& environment);

/// Thread-safe. Blocks on the disk.
class ConfigFile {
  public:
    explicit ConfigFile(std::filesystem::path file) : file_(std::move(file)) {}
    /// An absent file is an empty config. Errors: those of parse_config, with the file's path;
    /// storage.
    shared::Result<Config> read();

  private:
    std::filesystem::path file_;
    std::mutex mutex_;
    std::string text_;  // what `config_` was made of
    bool has_read_ = false;
    shared::Result<Config> config_ = Config{};
};

}  // namespace providers
