#include <filesystem>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/json_fields.h"
#include "cli/sessions.h"
#include "cli/terminal.h"

namespace cli {
namespace {

shared::Result<Json> look(const Common& common, const std::string& op, const std::string& folder) {
    const std::string workspace = workspace_of(folder, std::filesystem::current_path());
    Client client(common.home);
    Progress progress([&] { return host_of(workspace) + ": looking"; });
    auto answer = client.get("/fs/" + op + "?path=" + path_segment(workspace));
    progress.end();
    return answer;
}

std::string count_text(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_number() ? found->dump() : "unknown";
}

std::string facts(const Json& repo) {
    if (!repo.is_object()) return "no repository\n";
    std::string out = text_at(repo, "kind") + " " + visible(text_at(repo, "root")) + "\n";
    if (text_at(repo, "kind") == "jj") {
        out += "change " + text_at(repo, "change").substr(0, 12);
        const auto bookmark = repo.find("bookmark");
        if (bookmark != repo.end() && bookmark->is_object()) {
            out += ", " + count_text(*bookmark, "ahead") + " ahead of " +
                   visible(text_at(*bookmark, "name"));
        }
    } else {
        const std::string branch = text_at(repo, "branch");
        out += (branch.empty() ? "no branch" : "branch " + visible(branch)) + ", commit " +
               (text_at(repo, "commit").empty() ? "none" : text_at(repo, "commit").substr(0, 12));
    }
    out += "\nchanged " + count_text(repo, "changed") + "\n";
    const std::string reason = text_at(repo, "reason");
    return reason.empty() ? out : out + "note: " + visible(reason) + "\n";
}

std::string tree(const Json& level, const std::string& indent) {
    std::string out;
    for (const Json& entry : level) {
        const bool folder = text_at(entry, "kind") == "folder";
        out += indent + visible(text_at(entry, "name")) + (folder ? "/" : "");
        const auto changed = entry.find("changed");
        if (changed != entry.end() && *changed != 0) out += "  *";
        out += "\n" + tree(entry.value("children", Json::array()), indent + "  ");
        const auto more = entry.find("more");
        if (more != entry.end() && *more != 0) {
            out += indent + "  ... " + more->dump() + " more\n";
        }
    }
    return out;
}

}  // namespace

shared::Result<int> run_ls(const Common& common, const FolderOptions& options) {
    const auto listed = look(common, "list", options.folder);
    if (!listed) return listed.error();
    if (common.json) {
        write_output(listed->dump() + "\n");
        return kOk;
    }
    std::string out;
    for (const Json& entry : listed->value("entries", Json::array())) {
        if (entry.value("hidden", false) && !options.all) continue;
        const std::string vcs = text_at(entry, "vcs");
        out +=
            visible(text_at(entry, "name")) + "/" + (vcs.empty() ? "" : "  (" + vcs + ")") + "\n";
    }
    if (listed->value("truncated", false)) out += "... and more\n";
    write_output(out.empty() ? "no folders in it\n" : out);
    return kOk;
}

shared::Result<int> run_repo(const Common& common, const FolderOptions& options) {
    const auto seen = look(common, "preview", options.folder);
    if (!seen) return seen.error();
    if (common.json) {
        write_output(seen->dump() + "\n");
        return kOk;
    }
    std::string out = facts(seen->value("repo", Json()));
    std::string languages;
    for (const Json& each : seen->value("languages", Json::array())) {
        languages += (languages.empty() ? "" : ", ") + visible(text_at(each, "name"));
    }
    if (!languages.empty()) out += "languages " + languages + "\n";
    const Json level = seen->value("tree", Json());
    if (level.is_object()) {
        out += "\n" + tree(level.value("entries", Json::array()), "");
        if (level.value("more", 0) != 0) out += "... " + level["more"].dump() + " more\n";
    }
    write_output(out);
    return kOk;
}

}  // namespace cli
