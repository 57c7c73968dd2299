#include "api/sessions/idle_release.h"

#include <algorithm>

#include "api/sessions/kernel_json.h"

namespace sessions {

using nlohmann::json;
using shared::Monotonic;

namespace {
constexpr std::size_t kNamedAtMost = 40;
constexpr std::size_t kNoteBytes = 4'000;
// How often it is looked: a quarter of the time itself, within these.
constexpr shared::Milliseconds kShortestLook{250};
constexpr shared::Milliseconds kLongestLook{15'000};
// A kernel of another bundle than the host has now makes room for a new one this soon.
constexpr shared::Milliseconds kStalePatience{30'000};

/// "a, b and 3 more"; names are taken as text and nothing else.
std::string listed(const json& report, const char* field) {
    std::string text;
    std::size_t count = 0;
    const auto names = report.find(field);
    if (names == report.end() || !names->is_array()) return text;
    for (const auto& name : *names) {
        const json* word = &name;
        std::string why;
        if (name.is_array() && name.size() == 2 && name[1].is_string()) {
            word = &name[0];
            why = " (" + name[1].get<std::string>() + ")";
        }
        if (!word->is_string() || ++count > kNamedAtMost) continue;
        text += (text.empty() ? "" : ", ") + word->get<std::string>() + why;
    }
    if (count > kNamedAtMost) text += " and " + std::to_string(count - kNamedAtMost) + " more";
    return text;
}

/// Cut at a whole character.
std::string bounded(std::string text) {
    if (text.size() <= kNoteBytes) return text;
    std::size_t end = kNoteBytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    return text.substr(0, end) + " ...";
}

std::string part(const char* words, const std::string& names) {
    return names.empty() ? std::string() : std::string(" ") + words + ": " + names + ".";
}
}  // namespace

std::string released_note(const json& report) {
    const auto count = number_of(report, "count");
    if (count == 0) return "The kernel was idle and was ended; it held no names.";
    return bounded("The kernel was idle and was ended; " + std::to_string(count) +
                   " of its names are kept and come back with the next cell." +
                   part("Not kept", listed(report, "skipped")));
}

std::string restored_note(const json& report) {
    return bounded("The next kernel has the names of the one that was ended while idle." +
                   part("Restored", listed(report, "restored")) +
                   part("Run again from their source", listed(report, "defined")) +
                   part("Not restored", listed(report, "skipped")));
}

bool is_stale(const KernelLink& link, const shared::HostReport& host) {
    return !link.digest().empty() && !host.digest.empty() &&
           host.digest.compare(0, link.digest().size(), link.digest()) != 0;
}

IdleRelease::IdleRelease(Sessions& sessions, agents::Loop& loop, std::chrono::seconds idle)
    : sessions_(sessions), loop_(loop), idle_(idle) {}

std::optional<shared::Milliseconds> IdleRelease::patience(const Session& session) const {
    const bool never = idle_ == std::chrono::seconds::zero();
    const auto* host = sessions_.world().link.hosts.find({}, session.row.host);
    if (host == nullptr || !is_stale(*session.link(), host->report()))
        return never ? std::nullopt : std::optional<shared::Milliseconds>(idle_);
    return never ? kStalePatience : std::min<shared::Milliseconds>(idle_, kStalePatience);
}

void IdleRelease::begin() {
    const auto period = idle_ == std::chrono::seconds::zero()
                            ? kLongestLook
                            : std::clamp<shared::Milliseconds>(shared::Milliseconds(idle_) / 4,
                                                               kShortestLook, kLongestLook);
    loop_.at(Monotonic::now() + period, [this] {
        look();
        begin();
    });
}

void IdleRelease::look() {
    auto lock = sessions_.world().link.monitor.lock();
    const auto now = Monotonic::now();
    std::map<shared::SessionId, Quiet> still;
    for (const auto& row : sessions_.list(lock)) {
        const auto session = sessions_.find(lock, row.id);
        const auto* link = session->link();
        if (session->busy() || !session->jobs().empty() || link == nullptr ||
            link->state() != LinkState::attached)
            continue;
        const auto known = quiet_.find(row.id);
        Quiet quiet{now, row.used_ms};
        if (known != quiet_.end() && known->second.used_ms == row.used_ms) quiet = known->second;
        const auto limit = patience(*session);
        if (limit && now - quiet.since >= *limit) {
            (void)session->ask_release();
            quiet.since = now;  // one that is kept is asked again after as long
        }
        still[row.id] = quiet;
    }
    quiet_ = std::move(still);
}

}  // namespace sessions
