// What a host prints where our own programs should answer: the marker's stream, probe, staging,
// ladder, the bridge's first words, answers about folders.
#include <string>
#include <string_view>
#include <variant>

#include "api/workspaces/folder_answer.h"
#include "api/workspaces/location.h"
#include "hostagent/bridge_words.h"
#include "hostagent/browse.h"
#include "hostagent/ladder.h"
#include "hostagent/marker.h"
#include "hostagent/probe.h"
#include "hostagent/ssh_failure.h"
#include "hostagent/stager.h"
#include "shared/bounded_json.h"
#include "shared/result.h"
#include "tests/fuzz/targets.h"

namespace {

void check_words(const std::string& text) {
    ALBEDO_CHECK(!text.empty());
    ALBEDO_CHECK(hostagent::printable(text) == text);
}

/// Pieces of any size find the marker where the whole does.
void marker(std::string_view bytes) {
    const std::string mark = "a1b2";
    const auto whole = bytes.find("\n" + mark + "\n");
    const std::size_t step = bytes.empty() ? 1 : static_cast<unsigned char>(bytes.front()) % 7 + 1U;
    hostagent::MarkerScanner scanner(mark);
    for (std::size_t at = 0; at < bytes.size(); at += step) {
        const auto rest = scanner.feed(bytes.substr(at, step));
        ALBEDO_CHECK(scanner.noise().size() <=
                     hostagent::MarkerScanner::kNoiseBytes + step + mark.size() + 2);
        if (!rest) continue;
        const std::size_t end = std::min(at + step, bytes.size());
        ALBEDO_CHECK(whole != std::string_view::npos);
        ALBEDO_CHECK(end - rest->size() == whole + mark.size() + 2);
        return;
    }
    ALBEDO_CHECK(whole == std::string_view::npos);
}

void probe_and_staging(std::string_view bytes) {
    const auto probed = hostagent::read_probe(bytes);
    if (const auto* verdict = std::get_if<hostagent::Verdict>(&probed)) {
        ALBEDO_CHECK(verdict->state != shared::HostState::ready);
        check_words(verdict->detail);
    }
    if (const auto staged = hostagent::read_staged(bytes, bytes); !staged)
        check_words(staged.error().message);
}

void ladder(std::string_view bytes) {
    const auto answer = hostagent::read_ladder(bytes, bytes);
    if (answer)
        ALBEDO_CHECK(shared::parse_bounded_json(*answer).is_object());
    else
        ALBEDO_CHECK(hostagent::printable(answer.error().message) == answer.error().message);
}

void bridge(std::string_view bytes) {
    if (const auto ready = hostagent::read_ready(bytes))
        ALBEDO_CHECK(!ready->home.empty() && !ready->python.empty());
    (void)hostagent::read_opened(bytes);
    const auto closed = hostagent::read_closed(bytes);
    ALBEDO_CHECK(hostagent::printable(closed.detail) == closed.detail);
}

void folders(std::string_view bytes) {
    const auto first = hostagent::read_browse(bytes, bytes);
    if (!first) check_words(first.error().message);
    const auto location = workspaces::parse_location("box:/srv/x");
    ALBEDO_CHECK(location.ok());
    for (const std::string_view text : {bytes, first ? std::string_view(*first) : bytes}) {
        const auto found = workspaces::read_folder_answer(text, *location);
        if (found)
            ALBEDO_CHECK(found->is_object() && !found->contains("ok"));
        else
            ALBEDO_CHECK(!found.error().message.empty());
        (void)workspaces::read_presence(text);
    }
    const auto call = hostagent::browse_call(bytes, 7);
    ALBEDO_CHECK(!call || shared::parse_bounded_json(*call).value("id", 0) == 7);
    (void)hostagent::needs_no_bundle(bytes);
}

}  // namespace

void fuzz::host_answers(std::string_view bytes) {
    switch (choice(bytes, 5)) {
        case 0:
            return marker(bytes);
        case 1:
            return probe_and_staging(bytes);
        case 2:
            return ladder(bytes);
        case 3:
            return bridge(bytes);
        default:
            return folders(bytes);
    }
}
