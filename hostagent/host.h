// One host, as the work on it goes: is it there, is it fit, is the bundle on it.
//
// Owns the transport and the verdict (HostMachine). Each question in flight is asked once, others
// join it. Must not know kernels, channels or the api.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "hostagent/host_machine.h"
#include "hostagent/stager.h"
#include "hostagent/transport.h"

namespace hostagent {

/// Where the bundle stands on a host, and what runs it.
struct Place {
    std::string python;
    std::string home;
    std::string folder;  // the bundle's, absolute there
};

/// A command for the host, without the way there.
struct Errand {
    Words words;
    std::string marker;
    std::string input;
    shared::TimePoint deadline;
    Way way = Way::usual;
};

inline constexpr int kCommandsAtOnce = 6;

class Host {
  public:
    Host(asio::any_io_executor executor, std::unique_ptr<Transport> transport,
         std::filesystem::path albedo_home, HostMachine::Told told);

    const shared::HostReport& report() const { return machine_.report(); }
    HostMachine& machine() { return machine_; }
    Transport& transport() { return *transport_; }

    /// What the api remembers of this host, and the interpreter a person chose (empty: none).
    void configure(const shared::HostReport& known, const std::string& chosen_python);

    /// A verdict: a cached one, that of a probe in flight, or a new one.
    asio::awaitable<shared::HostReport> probe(bool fresh);

    /// The place as it was when the api last knew it: nothing is asked, it may be gone.
    std::optional<Place> remembered() const;
    /// The same as long as it proved right: this agent staged it or ran from it.
    std::optional<Place> place() const { return proved_ ? remembered() : std::nullopt; }
    /// Probed and staged. Errors: unreachable, needs_auth, unsupported, with the host's words.
    asio::awaitable<shared::Result<Place>> prepare();
    /// What was remembered is not there.
    void forget_place();
    /// Something of the host's own answered from that place.
    void served(const shared::HostReport& facts);

    /// Runs a command there, at most kCommandsAtOnce at a time but for fresh ones: sshd has 10
    /// sessions to a connection, and the bridge has one of them. The verdict learns nothing from
    /// it.
    asio::awaitable<Outcome> run(Errand errand);

    /// Python words that begin an answer with the marker, wherever python is.
    Words loader_words(const std::string& marker) const;

  private:
    asio::awaitable<Verdict> ask();
    asio::awaitable<shared::Result<Place>> stage();
    std::string usual_folder() const;
    Place place_of(const shared::HostReport& facts) const;
    StagePlan stage_plan(const Place& place) const;

    asio::any_io_executor executor_;
    std::unique_ptr<Transport> transport_;
    std::filesystem::path albedo_home_;
    HostMachine machine_;
    std::string chosen_python_;
    bool proved_ = false;
    bool probing_ = false;
    bool preparing_ = false;
    int running_ = 0;
    Event slot_free_;
    std::optional<shared::Result<Place>> prepared_;
    Event probed_;
    Event prepared_event_;
};

shared::ErrorCode code_of(shared::HostState state);

}  // namespace hostagent
