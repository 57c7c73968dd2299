// Transcript and event log.
#include <catch2/catch.hpp>

#include "api/providers/provider_json.h"
#include "api/sessions/event_log.h"
#include "api/sessions/transcript_json.h"

using namespace sessions;

namespace {

std::string shape(const std::vector<providers::Item>& items) {
    std::string all;
    for (const auto& item : items) {
        if (auto* user = std::get_if<providers::UserItem>(&item))
            all += "u" + user->text.substr(0, 9);
        if (auto* said = std::get_if<providers::AssistantItem>(&item))
            all += "a" + said->text.substr(0, 9);
        if (auto* call = std::get_if<providers::ToolCallItem>(&item)) all += "c" + call->call_id;
        if (auto* result = std::get_if<providers::ToolResultItem>(&item))
            all += "r" + result->call_id +
                   (result->output.find("unknown") != std::string::npos ? "?" : "");
        all += ' ';
    }
    return all;
}

}  // namespace

TEST_CASE("whatever was left open is paired, and ids are used once") {
    Transcript transcript;
    transcript.append(UserRow{"one", "", "", "user"}, 1);
    transcript.append(ThinkingRow{"hm", 3}, 2);
    transcript.append(TextRow{"look"}, 3);
    const auto first = transcript.append(ToolCallRow{"call-1", "python", "{}", {}}, 4).seq;
    transcript.append(ToolCallRow{"b a/d", "python", "{}", {}}, 4);
    transcript.append(ToolResultRow{first, "python", R"({"status":"ok"})"}, 5);
    CHECK(transcript.open_calls().size() == 1);
    transcript.append(UserRow{"two", "", "", "user"}, 6);
    const auto again = transcript.append(ToolCallRow{"call-1", "python", "{}", {}}, 7).seq;
    transcript.append(ToolResultRow{again, "python", R"({"status":"ok"})"}, 8);
    transcript.append(ToolCallRow{"", "python", "{}", {}}, 9);
    transcript.append(NoteRow{"for people"}, 10);
    CHECK(shape(transcript.render()) ==
          "uone alook ccall-1 cb_a_d rcall-1 rb_a_d? utwo ccall-1-2 rcall-1-2 ccall rcall? ");
}

TEST_CASE("a request stays within its bound, its calls paired") {
    Transcript transcript;
    for (int turn = 0; turn < 4; ++turn) {
        transcript.append(UserRow{"turn " + std::to_string(turn), "", "", ""}, 0);
        for (int step = 0; step < 5; ++step) {
            const auto row = transcript.append(ToolCallRow{"c", "python", "{}", {}}, 0).seq;
            transcript.append(ToolResultRow{row, "python", std::string(1000, 'x')}, 0);
        }
    }
    auto kept = shape(transcript.render(13'000));
    CHECK_THAT(kept, Catch::StartsWith("u(Earlier  uturn 2 ") && Catch::Contains("uturn 3 "));
    kept = shape(transcript.render(3'000));
    CHECK_THAT(kept, Catch::StartsWith("u(Earlier  uturn 3 a(Earlier  cc-"));
    CHECK_THAT(kept, Catch::EndsWith("cc-20 rc-20 "));
    CHECK_THAT(shape(transcript.render(10)), Catch::EndsWith("a(Earlier  cc-20 rc-20 "));
}

TEST_CASE("rows survive their stored form, whatever bytes they hold") {
    const auto cell = shared::CellId::make();
    const RowContent rows[] = {UserRow{"x\xff", "op", "cl", "user"},
                               TextRow{"t"},
                               ThinkingRow{"h", 5},
                               ToolCallRow{"c", "python", "{}", cell},
                               ToolResultRow{7, "python", "{\"a\":1}"},
                               NoteRow{"n"},
                               TurnCompletedRow{"op", "failed", "why"}};
    for (const auto& row : rows) {
        auto back = from_stored_form(kind_of(row), stored_form(row));
        REQUIRE(back.ok());
        CHECK(stored_form(*back) == stored_form(row));
    }
    CHECK_FALSE(from_stored_form("odd", "{}").ok());
    CHECK_FALSE(from_stored_form("text", "{").ok());
    const auto event = *providers::parse_json(event_form({9, 1, rows[4]}));
    CHECK(event["type"] == "tool");
    CHECK(event["result"].is_string());
    CHECK(event_form({9, 1, rows[3]}).find("\"type\":\"tool\"") == std::string::npos);
}

TEST_CASE("the event log replays, resets and lets go of slow readers") {
    EventLog log("g1");
    const auto now = shared::Monotonic::now();
    for (int event = 1; event <= 300; ++event) log.publish("{}", event);
    CHECK(log.subscribe("g1", 300).wait_until(now).events.empty());
    CHECK(log.subscribe("g1", 298).wait_until(now).events.size() == 2);
    CHECK(log.subscribe("g1", 44).wait_until(now).events.size() == kReplayEvents);
    CHECK(log.subscribe("g1", 43).is_reset());   // evicted
    CHECK(log.subscribe("g1", 301).is_reset());  // never was
    CHECK(log.subscribe("g0", 300).is_reset());
    CHECK(log.subscribe("g1", std::nullopt).is_reset());
    CHECK(log.listeners() == 0);

    auto fresh = log.subscribe("", std::nullopt);
    log.publish("{}", 301);
    log.publish("{\"delta\":1}");
    log.publish("{}", 302);
    fresh.skip_rows_through(301);
    CHECK(fresh.wait_until(now).events.size() == 2);
    for (std::size_t event = 0; event <= kQueueEvents; ++event) log.publish("{}");
    const auto late = fresh.wait_until(now);
    CHECK(late.overflowed);
    CHECK(late.events.empty());

    EventLog big("g");
    auto reader = big.subscribe("", std::nullopt);
    big.publish(std::string(2 * kQueueBytes, 'x'));
    CHECK(reader.wait_until(now).events.size() == 1);
    big.publish(std::string(kReplayBytes + 1, 'x'));
    CHECK(big.subscribe("g", 1).is_reset());
    big.close();
    CHECK(reader.wait_until(now).closed);
}
