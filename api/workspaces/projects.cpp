#include "api/workspaces/projects.h"

#include <future>
#include <optional>

#include "api/http/json_codec.h"
#include "api/store/mirrors_table.h"

namespace workspaces {
namespace {

using nlohmann::json;
using shared::Monotonic;
using shared::Result;

constexpr shared::Milliseconds kStoreDeadline{10'000};

std::map<std::string, std::string> files_of(const json& answer) {
    std::map<std::string, std::string> files;
    const auto listed = answer.find("files");
    if (listed == answer.end() || !listed->is_array()) return files;
    for (const json& each : *listed) {
        const auto path = each.find("path");
        const auto text = each.find("text");
        if (path != each.end() && path->is_string() && text != each.end() && text->is_string()) {
            files.emplace(path->get<std::string>(), text->get<std::string>());
        }
    }
    return files;
}

bool is_instruction(const std::string& path) {
    return path.ends_with(".md") && path.find("/skills/") == path.npos;
}

}  // namespace

std::shared_ptr<Projects::Mirror> Projects::mirror_of(const std::string& workspace) {
    const std::lock_guard lock(mutex_);
    auto& mirror = mirrors_[workspace];
    if (!mirror) mirror = std::make_shared<Mirror>();
    return mirror;
}

void Projects::load(const std::string& workspace, Mirror& mirror) {
    if (mirror.loaded) return;
    using Found = std::optional<store::MirrorRow>;
    auto row = database_.call<Found>(
        [workspace](store::Connection& connection) {
            return store::find_mirror(connection, workspace);
        },
        Monotonic::now() + kStoreDeadline);
    if (!row) return;
    mirror.loaded = true;
    if (!*row) return;
    auto parsed = http::parse_json((*row)->files);
    if (!parsed || !parsed->is_object()) return;
    mirror.files.files = files_of(*parsed);
    mirror.any = true;
}

void Projects::refresh(const std::string& workspace, Mirror& mirror) {
    auto location = parse_location(workspace);
    if (!location) return;
    const auto patience = mirror.any ? kNextGather : kFirstGather;
    auto answer = folders_.ask("gather", *location, Monotonic::now() + patience);
    mirror.read_at = Monotonic::now();
    if (const auto* failure = std::get_if<LookError>(&answer)) {
        mirror.files.problem = failure->error.message;
        return;
    }
    const json& found = std::get<json>(answer);
    mirror.files = {files_of(found), {}};
    mirror.any = true;
    database_.post(
        [row = store::MirrorRow{workspace, http::dump_json(found), shared::wall_ms()}](
            store::Connection& connection) { return store::save_mirror(connection, row); },
        [](const Result<void>&) {});
}

ProjectFiles Projects::read(const std::string& workspace) {
    auto mirror = mirror_of(workspace);
    const std::lock_guard reading(mirror->reading);
    load(workspace, *mirror);
    const bool fresh = mirror->read_at != shared::TimePoint{} &&
                       Monotonic::now() - mirror->read_at < kMirrorRefresh;
    // A failure is not kept: the host may be back the next moment.
    if (!fresh || !mirror->files.problem.empty()) refresh(workspace, *mirror);
    return mirror->files;
}

ProjectFiles Projects::known(const std::string& workspace) {
    auto mirror = mirror_of(workspace);
    const std::unique_lock reading(mirror->reading, std::try_to_lock);
    if (!reading) return {{}, "being read just now"};
    load(workspace, *mirror);
    return mirror->files;
}

Opening Projects::open(const std::string& workspace, bool check_links) {
    std::future<Result<std::vector<LinkedFolder>>> checks;
    if (check_links) {
        checks = std::async(std::launch::async, [this, workspace] {
            return links_.check(workspace, Monotonic::now() + kLinkChecks);
        });
    }
    Opening opening;
    const ProjectFiles project = read(workspace);
    for (const auto& [path, text] : project.files) {
        if (is_instruction(path)) opening.instructions.push_back(path + ":\n" + text);
    }
    opening.skills = skills::catalogue_of(project.files);
    if (!project.problem.empty()) {
        opening.notes.push_back(
            (project.files.empty() ? "The project's instructions and skills aren't available yet: "
                                   : "The project's instructions and skills are from before: ") +
            project.problem);
    }
    if (!check_links) return opening;
    auto checked = checks.get();
    if (!checked) return opening;
    for (const LinkedFolder& each : *checked) {
        if (each.presence.kind == Presence::Kind::gone) {
            opening.gone_links.push_back(each.workspace);
        } else if (each.presence.kind != Presence::Kind::there) {
            opening.notes.push_back("The linked workspace " + each.workspace +
                                    " was not checked: " + each.presence.detail);
        }
    }
    return opening;
}

}  // namespace workspaces
