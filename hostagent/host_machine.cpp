#include "hostagent/host_machine.h"

namespace hostagent {

using shared::HostReport;
using shared::HostState;
using shared::HostStep;

namespace {
bool looks_alike(const HostReport& a, const HostReport& b) {
    return a.state == b.state && a.step == b.step && a.detail == b.detail && a.os == b.os &&
           a.arch == b.arch && a.home == b.home && a.hostname == b.hostname && a.user == b.user &&
           a.python == b.python && a.python_version == b.python_version && a.digest == b.digest &&
           a.control_path == b.control_path;
}
}  // namespace

void HostMachine::changed(const HostReport& before) {
    if (!looks_alike(before, report_)) told_(report_);
}

void HostMachine::remember(const HostReport& known) {
    if (checked_ || report_.state != HostState::unknown || report_.step != HostStep::none) return;
    std::string path = std::move(report_.control_path);
    report_ = known;
    report_.step = HostStep::none;
    report_.control_path = std::move(path);
}

void HostMachine::set_control_path(const std::string& path) {
    const HostReport before = report_;
    report_.control_path = path;
    changed(before);
}

void HostMachine::step(HostStep step) {
    const HostReport before = report_;
    report_.step = step;
    changed(before);
}

void HostMachine::ready(const HostReport& facts, shared::TimePoint now) {
    const HostReport before = report_;
    const HostStep step = report_.step;
    std::string path = std::move(report_.control_path);
    report_ = facts;
    report_.state = HostState::ready;
    report_.step = step;
    report_.control_path = std::move(path);
    report_.checked_wall_ms = shared::wall_ms();
    checked_ = true;
    checked_at_ = now;
    changed(before);
}

void HostMachine::staged(const std::string& digest) {
    const HostReport before = report_;
    report_.digest = digest;
    changed(before);
}

void HostMachine::failed(const Verdict& verdict, shared::TimePoint now) {
    const HostReport before = report_;
    report_.state = verdict.state;
    report_.detail = verdict.detail;
    report_.checked_wall_ms = shared::wall_ms();
    checked_ = true;
    checked_at_ = now;
    changed(before);
}

void HostMachine::news() {
    if (report_.state != HostState::ready) checked_ = false;
}

bool HostMachine::fresh_enough(shared::TimePoint now) const {
    if (!checked_) return false;
    const auto serves = report_.state == HostState::ready ? kReadyServes : kFailureServes;
    return now - checked_at_ < serves;
}

}  // namespace hostagent
