#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/sessions.h"
#include "cli/terminal.h"

namespace cli {

shared::Result<int> run_sessions(const Common& common) {
    Client client(common.home);
    const auto listed = list_sessions(client);
    if (!listed) return listed.error();
    if (common.json) {
        write_output(listed->dump() + "\n");
        return kOk;
    }
    if (listed->empty()) {
        write_output("no sessions yet; make one: albedo exec FOLDER '1+1'\n");
        return kOk;
    }
    std::vector<std::vector<std::string>> rows{{"SESSION", "WORKSPACE", "TITLE"}};
    for (const auto& row : *listed) {
        auto text = [&](const char* key) {
            return row.contains(key) && row[key].is_string() ? row[key].get<std::string>() : "";
        };
        rows.push_back({text("id"), text("workspace"), text("title")});
    }
    write_output(table(rows));
    return kOk;
}

shared::Result<int> run_new(const Common& common, const NewOptions& options) {
    Client client(common.home);
    const auto made = create_session(
        client, workspace_of(options.folder, std::filesystem::current_path().string()));
    if (!made) return made.error();
    if (common.json) {
        write_output(Json{{"id", made->id}, {"workspace", made->workspace}}.dump() + "\n");
    } else {
        write_output(made->id + "  " + visible(made->workspace) + "\n");
    }
    return kOk;
}

}  // namespace cli
