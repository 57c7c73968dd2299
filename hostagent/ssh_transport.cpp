// A host over the user's own OpenSSH: which connection a command takes.
//
//  1. Before the first command `ssh -G` tells, within a second, whether the user has a control path
//     of their own; it is kept until a file of the config changes.
//  2. The first command makes the control master (or rides one that a person left there). Then the
//     expanded path of the socket is learnt, and later commands ride it or fail at once.
//  3. A master that does not answer is gone around by a whole connection, and named in note(). It
//  is
//     never killed: it may be the user's own, and may come back.
#include <unistd.h>

#include <utility>

#include "hostagent/ssh_command.h"
#include "hostagent/ssh_config.h"
#include "hostagent/ssh_failure.h"
#include "hostagent/ssh_master.h"
#include "hostagent/transport.h"
#include "shared/log.h"

namespace hostagent {

using shared::HostState;
using shared::Milliseconds;
using shared::Monotonic;
using shared::TimePoint;

namespace {

constexpr Milliseconds kQuestion{1000};  // for `ssh -G`, which may run a `Match exec` of the user's
constexpr Milliseconds kStuckFor{15'000};  // before a master that did not answer is asked again

class SshTransport final : public Transport {
  public:
    SshTransport(std::string host, const std::filesystem::path& albedo_home)
        : host_(std::move(host)) {
        if (auto folder = runtime_folder(albedo_home))
            ours_ = (*folder / "%C").native();
        else
            shared::log_warning("no control connection", {{"why", folder.error().message}});
    }

    asio::awaitable<Launch> launch(Words words, Way way) override {
        if (way == Way::usual) co_await look();
        SshOptions options;
        options.host = host_;
        options.control_path = path();
        options.persist = config_.control_persist.empty() ? "600" : config_.control_persist;
        options.keep_alives = !config_.has_keep_alives;
        options.ride = co_await choose();
        if (options.ride == Ride::only) options.control_path = expanded_;
        co_return Launch{ssh_argv(options, command_line(words)), options.ride == Ride::only};
    }

    std::optional<Verdict> failure(const Outcome& outcome) const override {
        if (!outcome.started) return Verdict{HostState::unreachable, printable(outcome.words)};
        if (outcome.timed_out && !outcome.marked) {
            std::string why = outcome.words.empty() && outcome.noise.empty()
                                  ? "no answer in time"
                                  : "no answer in time; last words: " +
                                        last_words(outcome.words + "\n" + outcome.noise);
            return Verdict{HostState::unreachable, with_note(why)};
        }
        if (!is_ssh_failure(outcome.status)) return std::nullopt;
        Verdict verdict = ssh_failure(outcome.words);
        verdict.detail = with_note(verdict.detail);
        return verdict;
    }

    bool another_way(const Launch& launch, const Outcome& outcome) override {
        if (!launch.rides_only || outcome.marked || !is_ssh_failure(outcome.status)) return false;
        // The master went away, or had no session left for us.
        alone_next_ = is_session_refused(outcome.words);
        return true;
    }

    asio::awaitable<void> worked() override {
        signed_in_stamp_ = config_stamp();
        reached_ = true;
        if (!expanded_.empty() || asked_expanded_) co_return;
        asked_expanded_ = true;
        co_await learn_socket();
    }

    asio::awaitable<void> abandon() override {
        stuck_until_ = {};
        co_await end_own_master();
    }

    asio::awaitable<void> stop() override { co_await end_own_master(); }

    bool sign_in_changed() override {
        // A master made by a person, or a file of the config or known_hosts that changed.
        if (config_stamp() != signed_in_stamp_) {
            signed_in_stamp_ = config_stamp();
            return true;
        }
        return !expanded_.empty() && ::access(expanded_.c_str(), F_OK) == 0;
    }

    std::string control_path() const override {
        return config_.control_path.empty() ? ours_ : config_.control_path;
    }
    std::string note() const override { return note_; }
    Words find_python(const std::string& marker) const override { return login_loader(marker); }

  private:
    /// What %C stands for: needed to ride the connection without making one.
    asio::awaitable<void> learn_socket() {
        if (!config_.control_path.empty()) {
            expanded_ = config_.control_path;
            co_return;
        }
        if (ours_.empty()) co_return;
        const auto outcome = co_await ask(ssh_question(host_, ours_));
        const SshConfig answer = parse_ssh_config(outcome.answer);
        if (is_usable_control_path(answer.control_path)) expanded_ = answer.control_path;
    }

    asio::awaitable<void> end_own_master() {
        if (!reached_ || !config_.control_path.empty()) co_return;
        if (expanded_.empty()) co_await learn_socket();
        if (!expanded_.empty()) co_await end_master(expanded_);
    }

    std::string path() const { return config_.control_path.empty() ? ours_ : config_.control_path; }

    std::string with_note(const std::string& text) const {
        return note_.empty() ? text : text + " (" + note_ + ")";
    }

    static asio::awaitable<Outcome> ask(std::vector<std::string> argv) {
        Command command;
        command.argv = std::move(argv);
        command.deadline = Monotonic::now() + kQuestion;
        co_return co_await run_command(std::move(command));
    }

    /// The user's config for this host, asked once until a file changes.
    asio::awaitable<void> look() {
        const std::string stamp = config_stamp();
        if (looked_ && stamp == looked_stamp_) co_return;
        looked_ = true;
        looked_stamp_ = stamp;
        const auto outcome = co_await ask(ssh_question(host_));
        SshConfig answer = parse_ssh_config(outcome.answer);
        if (!is_usable_control_path(answer.control_path)) answer.control_path.clear();
        if (answer.control_path != config_.control_path) {
            expanded_.clear();
            asked_expanded_ = false;
        }
        config_ = std::move(answer);
        if (signed_in_stamp_.empty()) signed_in_stamp_ = stamp;
    }

    asio::awaitable<Ride> choose() {
        if (path().empty() || std::exchange(alone_next_, false)) co_return Ride::alone;
        const std::string socket = !expanded_.empty() ? expanded_ : config_.control_path;
        if (socket.empty()) co_return Ride::master;
        if (Monotonic::now() < stuck_until_) co_return Ride::alone;
        const auto state = co_await ask_master(socket);
        note_.clear();
        if (state == MasterState::absent) co_return Ride::master;
        if (state == MasterState::answers) {
            expanded_ = socket;
            co_return Ride::only;
        }
        stuck_until_ = Monotonic::now() + kStuckFor;
        note_ = "the control connection " + printable(socket) + " does not answer; gone around it";
        shared::log_warning("control connection stuck", {{"socket", socket}});
        co_return Ride::alone;
    }

    std::string host_;
    std::string ours_;  // ends in /%C; empty: no private folder, no sharing
    SshConfig config_;
    bool looked_ = false;
    std::string looked_stamp_;
    std::string expanded_;  // the socket's real path, once known
    bool asked_expanded_ = false;
    bool reached_ = false;  // there may be a master of ours
    bool alone_next_ = false;
    TimePoint stuck_until_{};
    std::string note_;
    std::string signed_in_stamp_;
};

}  // namespace

std::unique_ptr<Transport> ssh_transport(std::string host, std::filesystem::path albedo_home) {
    return std::make_unique<SshTransport>(std::move(host), albedo_home);
}

}  // namespace hostagent
