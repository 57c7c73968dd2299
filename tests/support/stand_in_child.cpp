// A stand-in for albedo-api and albedo-hostagent, for tests of the supervisor: a small working
// child that does what a script says and can be steered from outside.
//
// Called as albedo-api it serves, on the listener it was handed, one line per connection:
//   want HOST | steer NUMBER HOST | processes | flight HOST | handover HOST GENERATION
//   hide NAME... | shutdown | events | welcome | flood
// and answers one line of JSON. Called by another name it is an agent. $ALBEDO_HOME/script.api or
// script.HOST is read at the start, one word a line:
//   crash (exit 3 before Ready), leave (exit 0 after Ready), mute (never Ready), spin (after
//   Ready), hold (heeds neither Drain nor SIGTERM nor the end of its socket), shout (a last word on
//   stderr), babble (an agent that gives orders)
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "shared/archive.h"
#include "shared/control_messages.h"
#include "shared/control_socket.h"
#include "shared/process_page.h"

using nlohmann::json;

namespace {

constexpr int kBeatMs = 50;

class StandIn {
  public:
    explicit StandIn(bool api) : api_(api), control_(shared::UniqueFd(shared::kControlFd)) {}

    int run() {
        if (!await_welcome()) return 1;
        if (script("shout")) std::fputs("the disk is upside down\n", stderr);
        if (script("crash")) return 3;
        if (script("hold")) std::signal(SIGTERM, SIG_IGN);
        if (!script("mute")) say(shared::Ready{});
        if (script("babble")) say(shared::WantHost{"other"});
        if (script("leave")) return 0;
        while (script("spin")) {
        }
        while (!done_) turn();
        return 0;
    }

  private:
    bool script(const std::string& word) const { return script_.count(word) != 0; }

    void say(const shared::FromChild& message) {
        if (!control_.send(shared::encode(message), {})) std::exit(4);
    }

    bool await_welcome() {
        while (home_.empty()) {
            pollfd watched{control_.fd(), POLLIN, 0};
            poll(&watched, 1, 5000);
            if (!hear()) return false;
        }
        std::ifstream file(home_ + "/script." + (api_ ? "api" : host_));
        for (std::string word; file >> word;) script_.insert(word);
        page_->record("script read");
        return true;
    }

    void turn() {
        pollfd watched[2] = {{control_.fd(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
        poll(watched, api_ ? 2 : 1, kBeatMs);
        page_->beat();
        if (watched[0].revents != 0 && !hear() && !script("hold")) done_ = true;
        if (api_ && (watched[1].revents & POLLIN)) serve();
    }

    // Takes all messages that are there. False: the supervisor is gone.
    bool hear() {
        while (true) {
            auto received = control_.receive();
            if (!received) return false;
            if (!*received) return true;
            auto& message = **received;
            if (message.bytes.empty()) return false;
            auto decoded = shared::decode<shared::ToChild>(message.bytes);
            if (!decoded) std::exit(5);
            std::visit([&](const auto& each) { got(each, message.descriptors); }, *decoded);
        }
    }

    void got(const shared::Welcome& welcome, std::vector<shared::UniqueFd>& fds) {
        home_ = welcome.home;
        host_ = welcome.host;
        welcome_ = {{"token", welcome.token}, {"owner", welcome.owner}, {"port", welcome.port}};
        auto page = shared::ProcessPage::attach(std::move(fds.at(0)));
        if (!page) std::exit(6);
        page_ = std::make_unique<shared::ProcessPage>(std::move(*page));
        page_->record("welcomed");
        if (api_) listener_ = std::move(fds.at(1));
    }
    void got(const shared::ChannelOffer& offer, std::vector<shared::UniqueFd>& fds) {
        page_->record("channel " + std::to_string(offer.generation));
        events_.push_back({"offer", offer.host, offer.generation, fds.size()});
    }
    void got(const shared::AgentDown& down, std::vector<shared::UniqueFd>&) {
        events_.push_back({"down", down.host, down.generation, down.cause, down.failed});
    }
    void got(const shared::Drain&, std::vector<shared::UniqueFd>&) {
        if (!script("hold")) done_ = true;
    }
    void got(const shared::Processes& processes, std::vector<shared::UniqueFd>&) {
        for (const auto& each : processes.processes) {
            answer_.push_back({{"name", each.name},
                               {"host", each.host},
                               {"pid", each.pid},
                               {"state", each.state},
                               {"restarts", each.restarts},
                               {"generation", each.generation},
                               {"last_death", each.last_death}});
        }
        answered_ = !processes.more;
    }
    void got(const shared::Flight& flight, std::vector<shared::UniqueFd>&) {
        answer_ = flight.texts;
        answered_ = true;
    }
    void got(const shared::Steered& steered, std::vector<shared::UniqueFd>&) {
        answer_ = {{"ok", steered.ok}, {"message", steered.message}};
        answered_ = true;
    }

    // Asks the supervisor and waits, 5 s at most, for its answer.
    json ask(const shared::FromChild& question) {
        answer_ = json::array();
        answered_ = false;
        say(question);
        for (int i = 0; i < 100 && !answered_; ++i) {
            pollfd watched{control_.fd(), POLLIN, 0};
            poll(&watched, 1, 50);
            page_->beat();
            if (!hear()) break;
        }
        return answer_;
    }

    json order(const std::string& line) {
        std::istringstream words(line);
        std::string verb, host;
        words >> verb;
        if (verb == "events") return events_;
        if (verb == "welcome") return welcome_;
        if (verb == "processes") return ask(shared::AskProcesses{1});
        if (verb == "flood") {
            // Asks without end and reads no answer.
            const std::string question = shared::encode(shared::FromChild(shared::AskProcesses{2}));
            while (true) {
                if (control_.send(question)) continue;
                pollfd watched{control_.fd(), POLLOUT, 0};
                poll(&watched, 1, 100);
                if (!control_.flush()) std::exit(4);
            }
        } else if (verb == "shutdown") {
            say(shared::WantShutdown{});
        } else if (verb == "hide") {
            shared::HideVariables hide;
            while (words >> host) hide.names.push_back(host);
            say(hide);
        } else if (verb == "want") {
            words >> host;
            say(shared::WantHost{host});
        } else if (verb == "flight") {
            words >> host;
            return ask(shared::AskFlight{3, host});
        } else if (verb == "steer") {
            int number = 0;
            words >> number >> host;
            return ask(shared::SteerHost{4, host, static_cast<shared::Steering>(number)});
        } else if (verb == "handover") {
            std::uint64_t generation = 0;
            words >> host >> generation;
            say(shared::HandoverFailed{host, generation});
        } else {
            return "unknown order";
        }
        return "ok";
    }

    void serve() {
        const shared::UniqueFd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!client) return;
        const timeval patience{2, 0};
        setsockopt(client.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        std::string line;
        for (char c; read(client.get(), &c, 1) == 1 && c != '\n';) line += c;
        const std::string answer = order(line).dump() + "\n";
        if (write(client.get(), answer.data(), answer.size()) < 0) std::perror("write");
    }

    bool api_;
    shared::ControlSocket control_;
    shared::UniqueFd listener_;
    std::unique_ptr<shared::ProcessPage> page_;
    std::set<std::string> script_;
    std::string home_, host_;
    json welcome_, events_ = json::array(), answer_;
    bool answered_ = false;
    bool done_ = false;
};

}  // namespace

int main(int, char** argv) {
    std::signal(SIGPIPE, SIG_IGN);
    return StandIn(std::string(argv[0]).ends_with("albedo-api")).run();
}
