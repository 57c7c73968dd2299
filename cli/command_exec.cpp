#include <iostream>
#include <iterator>

#include "cli/commands.h"
#include "cli/follow.h"
#include "cli/sessions.h"
#include "cli/terminal.h"
#include "shared/ids.h"

namespace cli {

shared::Result<int> run_exec(const Common& common, const ExecOptions& options) {
    using shared::ErrorCode;
    std::string code = options.words.back();
    if (code == "-") {
        code.assign(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
    }
    Client client(common.home);
    Progress progress([] { return std::string("starting the daemon"); });
    if (const auto found = client.connect(); !found) return found.error();
    progress.end();

    const std::string folder = options.words.size() > 1 ? options.words.front() : ".";
    const auto session =
        options.session.empty()
            ? session_for(client, workspace_of(folder, std::filesystem::current_path().string()))
            : session_by_id(client, options.session);
    if (!session) return session.error();

    Json request{{"code", code}, {"operationId", shared::OperationId::make().text()}};
    if (options.timeout_seconds > 0) {
        request["timeout_ms"] = static_cast<std::int64_t>(options.timeout_seconds * 1000);
    }
    const auto taken = client.post("/sessions/" + path_segment(session->id) + "/cells", request);
    if (!taken) return taken.error();
    return follow_cell(client, {*session, taken->value("cellId", std::string())}, common.json);
}

}  // namespace cli
