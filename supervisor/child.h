// One live child: its process, control socket, page and last words, driven by a ChildMachine.
//
//  1. want(), steer() or the machine's own timer lead to a spawn. The owner's greet() gives the
//     environment and the Welcome. Control socket at descriptor kControlFd, stderr into LastWords.
//  2. The child says Ready: the owner hears child_ready(). Everything else it says: child_said().
//  3. It ends, by itself or by steps: child_ended(), after the machine decided what follows. Then,
//     and not before, it is started again or waits; a death nobody asked for leaves a black box.
//
// Children are sessions of their own: Ctrl-C in a terminal is the supervisor's to handle, and what
// happens to one child's group happens to no other. Main thread only; it never blocks.
#pragma once

#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/child_process.h"
#include "shared/control_messages.h"
#include "shared/process_page.h"
#include "supervisor/child_machine.h"
#include "supervisor/control.h"
#include "supervisor/last_words.h"
#include "supervisor/loop_watch.h"

namespace supervisor {

class Child;

/// What a child is given at each start.
struct Greeting {
    shared::Welcome welcome;
    std::vector<int> descriptors;  // lent; they follow the page's in the Welcome
    std::vector<std::string> environment;
};

class ChildOwner {
  public:
    virtual ~ChildOwner() = default;
    /// Errors count as a death of the child.
    virtual shared::Result<Greeting> greet(const Child& child) = 0;
    virtual void child_ready(Child& child) = 0;
    virtual void child_said(Child& child, shared::FromChild message) = 0;
    virtual void child_ended(Child& child) = 0;
};

class Child {
  public:
    struct Identity {
        std::string name;     // "api" or "agent"
        std::string host;     // empty for the api
        std::string program;  // absolute path
    };

    Child(boost::asio::io_context& loop, Identity identity, const Timing& timing,
          std::filesystem::path black_boxes, ChildOwner& owner);
    ~Child();

    void want() { apply(machine_.want()); }
    /// Errors: conflict.
    shared::Result<void> steer(shared::Steering steering);
    void drain();
    void kill_for_good() { apply(machine_.kill_for_good()); }
    void broke_rules(std::string cause) { apply(machine_.broke_rules(std::move(cause))); }
    void look(shared::TimePoint now, shared::TimePoint trusted_since);

    /// A child that does not take its messages is restarted; its owner need not care.
    void send(const shared::ToChild& message, const std::vector<int>& fds = {});

    const std::string& name() const { return identity_.name; }
    const std::string& host() const { return identity_.host; }
    const ChildMachine& machine() const { return machine_; }
    bool up() const { return machine_.state() == ChildState::up; }
    const std::string& last_words() const { return words_before_; }  // of the newest death
    shared::ProcessInfo info() const;
    std::vector<shared::FlightEvent> flight() const;

  private:
    struct Running;
    void apply(const Actions& actions);
    void spawn();
    void heard(shared::FromChild message);
    void broken(std::string why);
    void rang();
    void ended();
    void after_death(const std::string& how);
    void note_state();

    boost::asio::io_context& loop_;
    Identity identity_;
    Timing timing_;
    std::filesystem::path black_boxes_;
    ChildOwner& owner_;
    ChildMachine machine_;
    std::unique_ptr<Running> running_;
    std::unique_ptr<shared::ProcessPage> page_;  // of the running process, or of the last one
    std::optional<shared::EndSteps> ending_;
    Alarm alarm_;  // the next step of ending, else the machine's own time
    ChildState noted_state_ = ChildState::stopped;
    std::int64_t since_wall_ms_ = 0;
    std::int64_t last_death_wall_ms_ = 0;
    std::string words_before_;
};

}  // namespace supervisor
