#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <iterator>

#include "cli/commands.h"
#include "cli/conversation_view.h"
#include "cli/exit_codes.h"
#include "cli/interrupts.h"
#include "cli/json_fields.h"
#include "cli/sessions.h"
#include "cli/terminal.h"
#include "shared/ids.h"

namespace cli {
namespace {

void interrupted_by_person(const std::filesystem::path& home, const Session& session,
                           const std::string& operation, int count) {
    if (count > 1) {
        std::fprintf(stderr, "\nthe turn goes on; to see it: albedo watch %s\n",
                     visible(session.id).c_str());
        std::fflush(stdout);
        _exit(kInterrupted);
    }
    std::fputs("\ninterrupting the turn (Ctrl-C again leaves it running)\n", stderr);
    Client client(home);
    const std::string path = "/sessions/" + path_segment(session.id);
    // While it waits behind another turn it is taken back; that one is not ours to stop.
    if (auto sent = client.post(path + "/cancel-submission", {{"submissionId", operation}}); !sent)
        std::fprintf(stderr, "albedo: %s\n", visible(sent.error().message).c_str());
}

/// What a prompt's turn has said so far.
struct Turn {
    std::string operation;
    bool begun = false;
    std::string words;
    Json end;
};

}  // namespace

shared::Result<int> run_prompt(const Common& common, const PromptOptions& options) {
    std::string text = options.words.back();
    if (text == "-")
        text.assign(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
    Client client(common.home);
    if (const auto found = client.connect(); !found) return found.error();
    const std::string folder = options.words.size() > 1 ? options.words.front() : ".";
    const auto session =
        options.session.empty()
            ? session_for(client, workspace_of(folder, std::filesystem::current_path().string()))
            : session_by_id(client, options.session);
    if (!session) return session.error();

    Turn turn;
    turn.operation = shared::OperationId::make().text();
    const Interrupts interrupts(
        [&](int count) { interrupted_by_person(common.home, *session, turn.operation, count); });
    ConversationView view(common.home, *session, !common.json);
    std::optional<shared::Error> refused;
    bool sent = false;
    const auto send = [&] {  // once the stream stands, so that nothing of the answer is missed
        sent = true;
        Client sender(common.home);
        const auto taken = sender.post("/sessions/" + path_segment(session->id) + "/events",
                                       {{"content", text}, {"operationId", turn.operation}});
        if (!taken) refused = taken.error();
        return taken.ok();
    };
    const auto followed = follow_session(client, *session, 1, [&](const Json& event) {
        const std::string type = text_at(event, "type");
        if (!sent && !send()) return false;
        const bool ours = text_at(event, "operationId") == turn.operation;
        if (type == "user" && ours) {
            turn.begun = true;
            return true;
        }
        if (type == "turn_completed" && ours) turn.end = event;
        if (turn.begun && type == "text") turn.words = text_at(event, "text");
        const bool waits = type == "phase" && !turn.begun;
        if (!common.json && (turn.begun || waits) && !view.show(event)) return false;
        return turn.end.is_null();
    });
    if (refused) return *refused;
    if (!followed) return followed.error();
    const std::string outcome = turn.end.is_object() ? text_at(turn.end, "outcome") : "cancelled";
    if (common.json) {
        write_output(Json{{"operationId", turn.operation},
                          {"session", session->id},
                          {"outcome", outcome},
                          {"message", turn.end.is_object() ? text_at(turn.end, "message") : ""},
                          {"text", turn.words}}
                         .dump(-1, ' ', false, Json::error_handler_t::replace) +
                     "\n");
    }
    return outcome == "completed" ? kOk : outcome == "failed" ? kFailed : kInterrupted;
}

}  // namespace cli
