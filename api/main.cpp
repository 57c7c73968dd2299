// albedo-api: HTTP, the store, sessions and their links to kernels. Started by the supervisor with
// its control socket at kControlFd; everything else comes with the welcome. Builds all parts and
// passes them on; the order of their ends is the reverse.
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "api/agents/hosts.h"
#include "api/agents/supervisor_link.h"
#include "api/http/routes_agents.h"
#include "api/http/routes_cells.h"
#include "api/http/routes_commands.h"
#include "api/http/routes_daemon.h"
#include "api/http/routes_fs.h"
#include "api/http/routes_hosts.h"
#include "api/http/routes_jobs.h"
#include "api/http/routes_memory.h"
#include "api/http/routes_metrics.h"
#include "api/http/routes_sessions.h"
#include "api/http/server.h"
#include "api/http/turn_routes.h"
#include "api/memory/memory_calls.h"
#include "api/sessions/cells.h"
#include "api/sessions/idle_release.h"
#include "api/sessions/sessions.h"
#include "api/sessions/turns.h"
#include "api/store/database.h"
#include "api/store/hosts_table.h"
#include "api/store/operations_table.h"
#include "api/store/schema.h"
#include "api/workspaces/folders.h"
#include "api/workspaces/links.h"
#include "api/workspaces/projects.h"
#include "shared/home.h"
#include "shared/log.h"
#include "shared/process_page.h"

namespace {

using namespace std::chrono_literals;
using shared::Monotonic;

constexpr auto kWelcomeDeadline = 10s;
constexpr auto kStoreDeadline = 30s;
constexpr auto kDrain = 500ms;  // for open requests; one that waits for a cell then hears its id
constexpr auto kDrainLook = 20ms;
constexpr auto kReceipts = 7 * 24h;
constexpr auto kTurnsEnd = 2000ms;  // a request or a question to a host that is under way

/// Seconds that a variable of the environment says, if it says more than 0.
std::chrono::seconds seconds_of(const char* name, std::chrono::seconds otherwise) {
    const char* text = std::getenv(name);
    const long seconds = text != nullptr ? std::strtol(text, nullptr, 10) : 0;
    return seconds > 0 ? std::chrono::seconds(seconds) : otherwise;
}

int fail(const std::string& what, const shared::Error& error) {
    shared::log_error("api cannot start", {{"what", what}, {"why", error.message}});
    // The supervisor tells these last words to whoever started the daemon.
    std::fprintf(stderr, "%s: %s\n", what.c_str(), error.message.c_str());
    return 1;
}

/// What the store remembers of hosts goes to their ends; receipts past their time go.
shared::Result<void> recall(store::Database& database, agents::Hosts& hosts) {
    using Known = std::vector<std::pair<std::string, shared::HostReport>>;
    auto known = database.call<Known>(
        [](store::Connection& connection) -> shared::Result<Known> {
            const auto before =
                shared::wall_ms() -
                std::chrono::duration_cast<std::chrono::milliseconds>(kReceipts).count();
            if (auto expired = store::expire_operations(connection, before); !expired)
                return expired.error();
            return store::all_hosts(connection);
        },
        Monotonic::now() + kStoreDeadline);
    if (!known) return known.error();
    for (auto& [host, report] : *known) hosts.remember(host, std::move(report));
    return {};
}

sessions::ProjectContext project_context(workspaces::Projects& projects,
                                         memory::MemoryCalls& memory,
                                         const std::string& workspace) {
    auto opening = projects.open(workspace, true);
    sessions::ProjectContext context;
    context.instructions = std::move(opening.instructions);
    context.gone_links = std::move(opening.gone_links);
    context.notes = std::move(opening.notes);
    for (const auto& skill : opening.skills.skills)
        context.skills.push_back({skill.name, skill.description, skill.path});
    if (auto text = memory.read(workspace)) context.memory = std::move(*text);
    return context;
}

std::optional<skills::Skill> skill_of(workspaces::Projects& projects, const std::string& workspace,
                                      const std::string& name) {
    for (auto& skill : skills::catalogue_of(projects.read(workspace).files).skills)
        if (skill.name == name) return std::move(skill);
    return std::nullopt;
}

http::CommandWorld command_world(http::RouteWorld& routes, http::TurnRoutes& turns,
                                 workspaces::Links& links, workspaces::Projects& projects) {
    return {
        .routes = routes,
        .links = links,
        .projects = projects,
        .note =
            [&turns](shared::SessionId session, const std::string& text) {
                if (auto kept = turns.turns.note(session, text); !kept)
                    shared::log_warning("a note could not be stored",
                                        {{"why", kept.error().message}});
            },
        .submit_skill =
            [&turns](shared::SessionId session, const skills::Skill& skill,
                     const std::string& arguments) {
                return http::submit_skill(turns, session, skill, arguments);
            },
    };
}

int run() {
    agents::Loop loop;
    agents::SupervisorLink supervisor(loop, shared::UniqueFd(shared::kControlFd));
    auto welcomed = supervisor.wait_welcome(kWelcomeDeadline);
    if (!welcomed) return fail("no welcome", welcomed.error());
    const shared::Welcome& welcome = welcomed->welcome;
    const shared::HomeLayout home(welcome.home);
    shared::open_log({home.log_file(), "api", shared::LogLevel::info, false});
    auto page = shared::ProcessPage::attach(std::move(welcomed->page));
    if (!page) return fail("no process page", page.error());
    page->beat();

    auto database = store::Database::open({home.database_file(), store::schema()});
    if (!database) return fail(home.database_file().string() + " cannot be used", database.error());

    metrics::Metrics counted;
    agents::Monitor monitor;
    agents::Hosts hosts(monitor, loop, supervisor,
                        [&](const std::string& host, const shared::HostReport& report) {
                            (*database)->post(
                                [host, report](store::Connection& connection) {
                                    return store::save_host(connection, host, report);
                                },
                                [](const shared::Result<void>&) {});
                        });
    hosts.set_metrics(&counted);
    if (auto recalled = recall(**database, hosts); !recalled)
        return fail("the store cannot be read", recalled.error());

    workspaces::Folders folders(hosts);
    workspaces::Links links(**database, folders);
    memory::MemoryCalls memory(**database, links, memory::MemoryFiles(home.memories_folder()));
    sessions::SessionWorld session_world{{monitor, loop, hosts, welcome.owner, welcome.home,
                                          seconds_of("ALBEDO_KERNEL_GRACE_SECONDS", 3600s)},
                                         **database,
                                         memory,
                                         *page,
                                         counted};
    sessions::Sessions all_sessions(session_world);
    hosts.set_listener(&all_sessions);
    if (auto loaded = all_sessions.load(); !loaded)
        return fail("the sessions cannot be read", loaded.error());
    sessions::Cells cells(all_sessions);
    sessions::Jobs jobs(all_sessions);
    sessions::IdleRelease idle_release(all_sessions, loop, seconds_of("ALBEDO_IDLE_SECONDS", 0s));

    workspaces::Projects projects(**database, folders, links);
    providers::ConfigFile config(home.config_file());
    shared::HideVariables keys;
    if (auto read = config.read()) keys.names = read->key_variables;
    supervisor.send(keys);
    sessions::TurnWorkers workers;
    sessions::TurnWorld turn_world{
        all_sessions,
        cells,
        workers,
        [&](const std::string& workspace) { return project_context(projects, memory, workspace); },
        config,
        providers::process_environment(),
        seconds_of("ALBEDO_CELL_BACKGROUND_SECONDS", 60s)};
    sessions::Turns turns(turn_world);
    if (auto loaded = turns.load(); !loaded)
        return fail("the turns cannot be read", loaded.error());

    const char* user_home = std::getenv("HOME");
    http::RouteWorld routes{monitor,
                            hosts,
                            all_sessions,
                            cells,
                            user_home != nullptr ? user_home : "/",
                            welcome.started_wall_ms,
                            [&] { supervisor.send(shared::WantShutdown{}); }};
    http::ServerOptions options;
    options.token = welcome.token;
    options.on_request = [&] { page->add(shared::Counter::requests); };
    options.on_response = [&](const std::string& method, const std::string& pattern, int status,
                              std::chrono::nanoseconds took) {
        counted.add(metrics::Count::http_requests, {method, pattern, std::to_string(status)});
        if (pattern != "-") counted.observe(metrics::Time::http_requests, {pattern}, took);
    };
    http::Server server(std::move(options));
    http::add_session_routes(server, routes);
    http::add_cell_routes(server, routes);
    http::add_host_routes(server, routes);
    http::add_job_routes(server, jobs);
    http::add_agent_routes(server, routes, counted);
    http::add_daemon_routes(server, routes);
    http::add_metrics_routes(server, routes, counted);
    http::add_fs_routes(server, folders);
    http::add_memory_routes(server, memory, links);
    http::TurnRoutes turn_routes{turns, hosts, home.config_file(),
                                 [&](const std::string& workspace, const std::string& name) {
                                     return skill_of(projects, workspace, name);
                                 }};
    http::add_turn_routes(server, turn_routes);
    http::add_command_routes(server, command_world(routes, turn_routes, links, projects));

    std::function<void()> beat = [&] {
        page->beat();
        loop.at(Monotonic::now() + shared::kHeartbeatPeriod, beat);
    };
    loop.post(beat);
    shared::TimePoint drained_by;
    std::function<void()> drain = [&] {
        if (server.connections() == 0 || Monotonic::now() >= drained_by) return loop.stop();
        loop.at(Monotonic::now() + kDrainLook, drain);
    };
    supervisor.start({
        .offer =
            [&](auto offer, auto descriptors) {
                page->record("channel to " + offer.host);
                hosts.take_offer(std::move(offer), std::move(descriptors));
            },
        .agent_down = [&](auto down) { hosts.agent_down(down); },
        .drain =
            [&] {
                server.drain();
                drained_by = Monotonic::now() + kDrain;
                drain();
            },
        .end = [&] { loop.stop(); },
    });
    server.start(std::move(welcomed->listener));
    loop.post([&] {
        all_sessions.begin();
        idle_release.begin();
        turns.begin();
        supervisor.send(shared::Ready{});
    });
    loop.run();

    if (!turns.stop(Monotonic::now() + kTurnsEnd)) std::_Exit(0);
    memory.stop();
    all_sessions.detach_all();
    // What was accepted is on disk already, so a handler that is still busy loses nothing.
    if (!server.stop()) std::_Exit(0);
    return 0;
}

}  // namespace

int main() {
    ::signal(SIGPIPE, SIG_IGN);
    try {
        return run();
    } catch (const std::exception& fault) {
        shared::log_error("api ends", {{"why", fault.what()}});
        return 1;
    }
}
