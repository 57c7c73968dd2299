#include "cli/commands.h"
#include "cli/conversation_view.h"
#include "cli/exit_codes.h"
#include "cli/terminal.h"

namespace cli {

shared::Result<int> run_history(const Common& common, const HistoryOptions& options) {
    Client client(common.home);
    const auto session = session_of_target(client, options.target);
    if (!session) return session.error();
    const auto page = client.get("/sessions/" + path_segment(session->id) +
                                 "/history?rows=" + std::to_string(options.rows));
    if (!page) return page.error();
    if (common.json) {
        write_output(page->dump() + "\n");
        return kOk;
    }
    ConversationView view(common.home, *session, false);
    if (page->value("more", false)) write_output("[older rows are not shown: -n]\n");
    for (const Json& event : page->value("events", Json::array()))
        if (!view.show(event)) return kFailed;
    return kOk;
}

shared::Result<int> run_watch(const Common& common, const HistoryOptions& options) {
    Client client(common.home);
    const auto session = session_of_target(client, options.target);
    if (!session) return session.error();
    ConversationView view(common.home, *session, true);
    const auto followed = follow_session(client, *session, options.rows, [&](const Json& event) {
        return common.json ? write_output(event.dump() + "\n") : view.show(event);
    });
    if (!followed) return followed.error();
    return kFailed;  // the reader has gone
}

}  // namespace cli
