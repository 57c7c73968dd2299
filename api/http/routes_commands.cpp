#include "api/http/routes_commands.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "api/http/errors.h"
#include "api/http/routes_sessions.h"

namespace http {
namespace {

using shared::Error;
using shared::ErrorCode;
using shared::Monotonic;
using shared::Result;
using shared::SessionId;

constexpr shared::Milliseconds kMoveDeadline{30'000};

/// The words of `arguments`, or the fields of `args`: what a person typed or a client filled in.
struct Asked {
    std::string name;
    Json args = Json::object();
    std::string arguments;

    /// A field of `args`, else the word at `place` of `arguments` (from 0; the last takes the
    /// rest).
    std::string argument(const char* field, std::size_t place, std::size_t count) const {
        const auto found = args.find(field);
        if (found != args.end() && found->is_string()) return found->get<std::string>();
        std::string_view rest = arguments;
        for (std::size_t at = 0;; ++at) {
            rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
            if (at == place && at + 1 == count) return std::string(rest);
            const std::size_t end = std::min(rest.find(' '), rest.size());
            if (at == place) return std::string(rest.substr(0, end));
            rest.remove_prefix(end);
        }
    }
};

Result<Asked> read_asked(const Request& request) {
    Fields fields(request.body);
    Asked asked;
    asked.name = fields.text("name", 256);
    asked.args = fields.optional_object("args").value_or(Json::object());
    asked.arguments = fields.optional_text("arguments").value_or("");
    if (auto read = fields.finish(); !read) return read.error();
    return asked;
}

Json entry(const char* name, const char* description, const char* usage, Json arguments) {
    return {{"name", name},
            {"description", description},
            {"method", "POST"},
            {"usage", usage},
            {"arguments", std::move(arguments)},
            {"modelCallable", false},
            {"userTurn", false},
            {"skill", false}};
}

Json catalogue(const skills::Catalogue& skills) {
    Json commands = Json::array();
    commands.push_back(entry("/link",
                             "Show the workspaces that hold the same project, link or unlink one",
                             "/link [add|remove WORKSPACE]", Json::array({"action", "details"})));
    commands.push_back(entry("/cd", "Go on in another folder, here or on a host", "/cd WORKSPACE",
                             Json::array({"workspace"})));
    for (const skills::Skill& skill : skills.skills) {
        commands.push_back({{"name", "/" + skill.name},
                            {"description", skill.description},
                            {"method", "POST"},
                            {"usage", "/" + skill.name + " [TEXT]"},
                            {"arguments", Json::array({"arguments"})},
                            {"modelCallable", false},
                            {"userTurn", true},
                            {"skill", true}});
    }
    return {{"commands", std::move(commands)}, {"problems", skills.problems}};
}

class Commands {
  public:
    explicit Commands(CommandWorld world) : world_(std::move(world)) {}

    Response list(const Request& request) {
        auto session = find(request);
        if (!session) return error_response(session.error());
        return json_response(
            catalogue(skills::catalogue_of(world_.projects.known(session->workspace).files)));
    }

    Response run(const Request& request) {
        auto session = find(request);
        if (!session) return error_response(session.error());
        auto asked = read_asked(request);
        if (!asked) return error_response(asked.error());
        auto answer = asked->name == "/link" ? link(*session, *asked)
                      : asked->name == "/cd" ? change_folder(*session, *asked)
                                             : skill(*session, *asked);
        if (!answer) return error_response(answer.error());
        return json_response(*answer);
    }

    Response move(const Request& request) {
        auto session = find(request);
        if (!session) return error_response(session.error());
        Fields fields(request.body);
        const std::string workspace = fields.text("workspace");
        if (auto read = fields.finish(); !read) return error_response(read.error());
        auto moved = move_to(*session, workspace);
        if (!moved) return error_response(moved.error());
        return json_response(session_json(*moved));
    }

  private:
    Result<store::SessionRow> find(const Request& request) {
        auto id = session_of(request);
        if (!id) return std::move(id).error();
        auto lock = world_.routes.monitor.lock();
        const auto session = world_.routes.sessions.find(lock, *id);
        if (!session) return Error{ErrorCode::not_found, "there is no such session", {}};
        return session->row;
    }

    Result<Json> link(const store::SessionRow& session, const Asked& asked) {
        const std::string action = asked.argument("action", 0, 2);
        const std::string details = asked.argument("details", 1, 2);
        if (action.empty()) {
            auto page = world_.links.page(session.workspace);
            if (!page) return std::move(page).error();
            return Json{{"result", {{"page", std::move(*page)}}}};
        }
        if (action != "add" && action != "remove") {
            return Error{ErrorCode::invalid, "/link takes add or remove, not " + action, {}};
        }
        if (details.empty()) {
            return Error{ErrorCode::invalid, "/link " + action + " takes a workspace", {}};
        }
        auto done = action == "add" ? world_.links.add(session.workspace, details)
                                    : world_.links.remove(session.workspace, details);
        if (!done) return std::move(done).error();
        tell_open_sessions(session.workspace, *done);
        return Json{{"result", {{"message", *done}}}};
    }

    void tell_open_sessions(const std::string& workspace, const std::string& text) {
        std::vector<SessionId> open;
        {
            auto lock = world_.routes.monitor.lock();
            for (const auto& row : world_.routes.sessions.list(lock)) {
                if (row.workspace == workspace) open.push_back(row.id);
            }
        }
        for (const SessionId& id : open) world_.note(id, text);
    }

    Result<Json> change_folder(const store::SessionRow& session, const Asked& asked) {
        auto moved = move_to(session, asked.argument("workspace", 0, 1));
        if (!moved) return std::move(moved).error();
        return Json{
            {"result",
             {{"message", "now in " + moved->workspace}, {"session", session_json(*moved)}}}};
    }

    Result<store::SessionRow> move_to(const store::SessionRow& session,
                                      const std::string& workspace) {
        auto place = resolve_workspace(world_.routes, workspace);
        if (!place) return std::move(place).error();
        store::SessionRow there = session;
        set_workspace(there, *place);
        auto moved =
            world_.routes.sessions.move(session.id, there, Monotonic::now() + kMoveDeadline);
        if (!moved) return moved;
        world_.note(session.id, "moved from " + session.workspace + " to " + moved->workspace +
                                    "; the kernel that was there is ended");
        return moved;
    }

    Result<Json> skill(const store::SessionRow& session, const Asked& asked) {
        std::string_view name = asked.name;
        if (name.starts_with('/')) name.remove_prefix(1);
        const auto known = skills::catalogue_of(world_.projects.read(session.workspace).files);
        const auto found = std::find_if(known.skills.begin(), known.skills.end(),
                                        [&](const auto& each) { return each.name == name; });
        if (found == known.skills.end()) {
            return Error{ErrorCode::not_found, "there is no command " + asked.name, {}};
        }
        auto receipt = world_.submit_skill(session.id, *found, asked.argument("arguments", 0, 1));
        if (!receipt) return std::move(receipt).error();
        Json answer = std::move(*receipt);
        answer["submitted"] = true;
        return answer;
    }

    CommandWorld world_;
};

}  // namespace

void add_command_routes(Server& server, CommandWorld world) {
    auto commands = std::make_shared<Commands>(std::move(world));
    server.route("GET", "/sessions/:id/commands",
                 [commands](const Request& request) { return commands->list(request); });
    server.route("POST", "/sessions/:id/commands",
                 [commands](const Request& request) { return commands->run(request); });
    server.route("POST", "/sessions/:id/workspace",
                 [commands](const Request& request) { return commands->move(request); });
}

}  // namespace http
