// HTTP to the daemon, and the only file that knows cpp-httplib here.
//
// A request that met a dead daemon is sent again: connection refused, a dropped connection, 401
// (the port may belong to a dying child of the daemon before), 503 `unavailable` (a part of it is
// being started), for at most kRetryPatience, each time looking the daemon up anew and starting it
// when none runs. Requests whose effect must not
// be doubled carry an operation id or say `Repeat::only_unsent`.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/daemon.h"
#include "cli/sse.h"
#include "shared/clock.h"
#include "shared/result.h"

namespace cli {

inline constexpr shared::Milliseconds kRetryPatience{15'000};
inline constexpr shared::Milliseconds kRequestTimeout{70'000};  // the daemon's own limits are below

enum class Repeat { freely, only_unsent };

using Json = nlohmann::json;

/// Not for several threads at once; make one per thread. Errors of all calls: what the daemon
/// said (its status as a code, its words, its host); unavailable when it cannot be reached or
/// started; timed_out when it did not answer.
class Client {
  public:
    explicit Client(std::filesystem::path home);
    ~Client();

    /// The daemon this client talks to, started if need be.
    shared::Result<FoundDaemon> connect();

    shared::Result<Json> get(const std::string& path,
                             shared::Milliseconds timeout = kRequestTimeout);
    shared::Result<Json> post(const std::string& path, const Json& body,
                              Repeat repeat = Repeat::freely,
                              shared::Milliseconds timeout = kRequestTimeout);

    /// DELETE, sent at most once.
    shared::Result<Json> remove(const std::string& path);

    /// Reads an event stream until `on_event` returns false (ok) or the stream ends (Error
    /// unreachable: open it again with the last id).
    shared::Result<void> stream(const std::string& path, const std::string& last_event_id,
                                const std::function<bool(const SseEvent&)>& on_event);

    const std::filesystem::path& home() const { return home_; }

  private:
    struct Connection;
    shared::Result<Connection*> connection();
    shared::Result<Json> request(const char* method, const std::string& path,
                                 const std::string& body, Repeat repeat,
                                 shared::Milliseconds timeout);

    std::filesystem::path home_;
    std::unique_ptr<Connection> connection_;
};

/// One segment of a path: everything but letters, digits and -._~ percent-encoded.
std::string path_segment(std::string_view text);

/// The error in an answer with `status` (400 and above) and `body`.
shared::Error error_of_answer(int status, const std::string& body);

}  // namespace cli
