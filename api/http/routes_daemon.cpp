#include "api/http/routes_daemon.h"

#include <memory>
#include <mutex>

#include "api/http/errors.h"
#include "api/http/json_codec.h"
#include "shared/process_page.h"

namespace http {

namespace {
constexpr shared::Milliseconds kHealthKept{1'000};  // asking more often asks nobody
constexpr shared::Milliseconds kHealthDeadline{2'000};

Json process_json(const shared::ProcessInfo& process) {
    Json counters = Json::object();
    for (std::size_t i = 0;
         i < process.counters.size() && i < static_cast<std::size_t>(shared::Counter::kCount); ++i)
        counters[shared::to_string(static_cast<shared::Counter>(i))] = process.counters[i];
    return {{"name", process.name},
            {"host", process.host},
            {"pid", process.pid},
            {"state", process.state},
            {"since_wall_ms", process.since_wall_ms},
            {"restarts", process.restarts},
            {"generation", process.generation},
            {"last_death", process.last_death},
            {"last_death_wall_ms", process.last_death_wall_ms},
            {"beat_age_ms", process.beat_age_ms},
            {"counters", std::move(counters)}};
}

class Health {
  public:
    explicit Health(RouteWorld& world) : world_(world) {}

    Response answer() {
        std::lock_guard lock(mutex_);
        const auto now = shared::Monotonic::now();
        if (!body_.empty() && now - asked_at_ < kHealthKept) return respond();
        auto processes = world_.hosts.supervisor().ask_processes(now + kHealthDeadline);
        if (!processes) return error_response(processes.error());
        Json rows = Json::array();
        for (const auto& process : *processes) rows.push_back(process_json(process));
        body_ = dump_json({{"version", ALBEDO_VERSION},
                           {"protocol", 1},
                           {"capabilities", {"cells", "cell_stream", "hosts", "host_steering"}},
                           {"started_wall_ms", world_.started_wall_ms},
                           {"processes", std::move(rows)}});
        asked_at_ = now;
        return respond();
    }

  private:
    Response respond() const {
        Response response;
        response.body = body_;
        return response;
    }
    RouteWorld& world_;
    std::mutex mutex_;
    std::string body_;
    shared::TimePoint asked_at_{};
};
}  // namespace

void add_daemon_routes(Server& server, RouteWorld& world) {
    server.route("GET", "/health", [health = std::make_shared<Health>(world)](const Request&) {
        return health->answer();
    });
    server.route("POST", "/shutdown", [&world](const Request&) {
        world.want_shutdown();
        return json_response({{"stopping", true}}, 202);
    });
}

}  // namespace http
