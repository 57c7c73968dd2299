#include <filesystem>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/json_fields.h"
#include "cli/sessions.h"
#include "cli/terminal.h"

namespace cli {
namespace {

std::string here(const std::string& folder) {
    return workspace_of(folder, std::filesystem::current_path());
}

shared::Result<int> show_links(const Common& common, Client& client, const std::string& workspace) {
    Progress progress([] { return std::string("asking the linked hosts"); });
    const auto page = client.get("/links?workspace=" + path_segment(workspace));
    progress.end();
    if (!page) return page.error();
    if (common.json) {
        write_output(page->dump() + "\n");
        return kOk;
    }
    std::vector<std::vector<std::string>> rows{{"WORKSPACE", "STATE", "DETAIL"}};
    for (const Json& row : page->value("rows", Json::array())) {
        const std::string badge = text_at(row, "badge");
        rows.push_back(
            {text_at(row, "id"), badge.empty() ? "there" : badge, text_at(row, "detail")});
    }
    write_output(table(rows));
    return kOk;
}

}  // namespace

shared::Result<int> run_link(const Common& common, const LinkOptions& options) {
    Client client(common.home);
    const std::string workspace = here(options.folder);
    if (options.other.empty()) return show_links(common, client, workspace);
    const auto session = session_for(client, workspace);
    if (!session) return session.error();
    const auto answer = client.post(
        "/sessions/" + session->id + "/commands",
        {{"name", "/link"},
         {"args",
          {{"action", options.remove ? "remove" : "add"}, {"details", here(options.other)}}}});
    if (!answer) return answer.error();
    const Json result = answer->value("result", Json::object());
    write_output(common.json ? result.dump() + "\n" : visible(text_at(result, "message")) + "\n");
    return kOk;
}

shared::Result<int> run_memory(const Common& common, const MemoryOptions& options) {
    Client client(common.home);
    const std::string workspace = here(options.folder);
    if (!options.append.empty()) {
        const auto added = client.post(
            "/memory", {{"workspace", workspace}, {"text", options.append}}, Repeat::only_unsent);
        if (!added) return added.error();
        if (common.json) write_output(added->dump() + "\n");
        return kOk;
    }
    const auto memory = client.get("/memory?workspace=" + path_segment(workspace));
    if (!memory) return memory.error();
    write_output(common.json ? memory->dump() + "\n"
                             : visible(text_at(*memory, "text"), Lines::keep));
    return kOk;
}

shared::Result<int> run_cd(const Common& common, const MoveOptions& options) {
    Client client(common.home);
    const auto session = options.session.empty() ? session_for(client, here("."))
                                                 : session_by_id(client, options.session);
    if (!session) return session.error();
    Progress progress([] { return std::string("ending the kernel that is left behind"); });
    const auto moved = client.post("/sessions/" + session->id + "/workspace",
                                   {{"workspace", here(options.folder)}}, Repeat::only_unsent);
    progress.end();
    if (!moved) return moved.error();
    write_output(common.json ? moved->dump() + "\n"
                             : session->id + " is now in " + visible(text_at(*moved, "workspace")) +
                                   "; its kernel starts anew there\n");
    return kOk;
}

}  // namespace cli
