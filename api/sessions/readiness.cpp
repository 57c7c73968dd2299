#include "api/sessions/readiness.h"

namespace sessions {

using shared::HostState;
using shared::HostStep;

namespace {
std::string words(const shared::HostReport& report) {
    return report.detail.empty() ? shared::to_string(report.state) : report.detail;
}
}  // namespace

std::optional<std::string> blocking_reason(Sessions& sessions, shared::SessionId id,
                                           bool asked_by_person) {
    auto& world = sessions.world().link;
    std::string host;
    {
        auto lock = world.monitor.lock();
        const auto session = sessions.find(lock, id);
        if (!session) return "the session is gone";
        const KernelLink* link = session->link();
        if (link != nullptr && link->record().confirmed && link->state() != LinkState::lost)
            return std::nullopt;
        host = session->row.host;
        const auto* end = world.hosts.find(lock, host);
        if (!asked_by_person && end != nullptr && end->report().state == HostState::needs_auth)
            return words(end->report());
    }
    const auto report = world.hosts.probe(host, false, shared::Monotonic::now() + kVerdictDeadline,
                                          agents::WhenFull::wait);
    if (report)
        return report->state == HostState::ready ? std::nullopt : std::optional(words(*report));
    auto lock = world.monitor.lock();
    const auto* end = world.hosts.find(lock, host);
    // It answers, and what is going on there is part of the start.
    const auto step = end != nullptr ? end->report().step : HostStep::none;
    if (step == HostStep::staging || step == HostStep::starting) return std::nullopt;
    return report.error().message;
}

}  // namespace sessions
