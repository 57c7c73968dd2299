#include "api/http/routes_metrics.h"

#include <map>

#include "shared/process_page.h"

namespace http {

namespace {
constexpr shared::Milliseconds kProcessesDeadline{2'000};

void write_processes(RouteWorld& world, metrics::Page& page) {
    auto processes =
        world.hosts.supervisor().ask_processes(shared::Monotonic::now() + kProcessesDeadline);
    if (!processes) return;
    page.family("albedo_process_up", "gauge", "1 while the process runs and answers.");
    for (const auto& each : *processes)
        page.sample("albedo_process_up", {{"process", each.name}, {"host", each.host}},
                    each.state == "up" ? 1 : 0);
    page.family("albedo_process_restarts_total", "counter", "Starts after a death.");
    for (const auto& each : *processes)
        page.sample("albedo_process_restarts_total",
                    {{"process", each.name}, {"host", each.host}}, each.restarts);
    page.family("albedo_process_last_death", "gauge",
                "Unix time of the newest death, by its cause.");
    for (const auto& each : *processes)
        if (!each.last_death.empty())
            page.sample("albedo_process_last_death",
                        {{"process", each.name}, {"host", each.host}, {"cause", each.last_death}},
                        static_cast<double>(each.last_death_wall_ms) / 1000);
    for (std::size_t i = 0; i < static_cast<std::size_t>(shared::Counter::kCount); ++i) {
        const auto counter = static_cast<shared::Counter>(i);
        const bool level = counter == shared::Counter::calls_in_flight ||
                           counter == shared::Counter::kernels;
        const std::string name =
            std::string("albedo_process_") + shared::to_string(counter) + (level ? "" : "_total");
        page.family(name, level ? "gauge" : "counter", "From the process's own page.");
        for (const auto& each : *processes)
            if (i < each.counters.size())
                page.sample(name, {{"process", each.name}, {"host", each.host}},
                            static_cast<double>(each.counters[i]));
    }
}

void write_hosts(RouteWorld& world, const agents::Monitor::Lock& lock, metrics::Page& page) {
    page.family("albedo_host_calls_in_flight", "gauge", "Questions that wait for an agent.");
    for (const auto& name : world.hosts.names(lock))
        page.sample("albedo_host_calls_in_flight", {{"host", name}},
                    static_cast<double>(world.hosts.find(lock, name)->calls_in_flight()));
    page.family("albedo_host_ready", "gauge", "1 while the host's last verdict is ready.");
    for (const auto& name : world.hosts.names(lock))
        page.sample(
            "albedo_host_ready", {{"host", name}},
            world.hosts.find(lock, name)->report().state == shared::HostState::ready ? 1 : 0);
}

void write_sessions(RouteWorld& world, const agents::Monitor::Lock& lock, metrics::Page& page) {
    std::map<std::string, int> kernels;
    std::size_t cells = 0, jobs = 0;
    const auto rows = world.sessions.list(lock);
    for (const auto& row : rows) {
        const auto session = world.sessions.find(lock, row.id);
        if (session->link() != nullptr) ++kernels[to_string(session->link()->state())];
        jobs += session->jobs().size();
        for (const auto& [id, cell] : session->cells()) cells += cell->finished() ? 0 : 1;
    }
    page.family("albedo_sessions", "gauge", "Sessions there are.");
    page.sample("albedo_sessions", {}, static_cast<double>(rows.size()));
    page.family("albedo_kernels", "gauge", "Kernels on record, by the state of their link.");
    for (const auto& [state, count] : kernels)
        page.sample("albedo_kernels", {{"link", state}}, count);
    page.family("albedo_cells_open", "gauge", "Cells that wait or run.");
    page.sample("albedo_cells_open", {}, static_cast<double>(cells));
    page.family("albedo_jobs", "gauge", "Jobs that run.");
    page.sample("albedo_jobs", {}, static_cast<double>(jobs));
}
}  // namespace

void add_metrics_routes(Server& server, RouteWorld& world, const metrics::Metrics& counted) {
    server.route("GET", "/metrics", [&server, &world, &counted](const Request&) {
        metrics::Page page;
        counted.write(page);
        page.family("albedo_http_connections", "gauge", "Clients connected now.");
        page.sample("albedo_http_connections", {}, static_cast<double>(server.connections()));
        write_processes(world, page);
        {
            auto lock = world.monitor.lock();
            write_hosts(world, lock, page);
            write_sessions(world, lock, page);
        }
        Response response;
        response.content_type = "text/plain; version=0.0.4; charset=utf-8";
        response.body = page.take();
        return response;
    });
}

}  // namespace http
