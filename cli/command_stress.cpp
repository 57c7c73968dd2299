// A bounded load on one host, with faults if asked, while others are watched: does it lose or double
// anything, how soon is it back, and what do the others feel of it?
//
// 1. Sessions are made on the host; each has its counter. A watcher has a session on every other host.
// 2. The watchers run alone for a moment, then beside the load.
// 3. Each cell adds one to its session's counter and prints so many bytes. The value says whether a
//    cell before it was lost or ran twice; the count of bytes, whether output was.
// 4. Faults are asked of the daemon, which does them to its own processes.
// 5. The sessions are deleted, kernels with them.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <random>
#include <thread>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/json_fields.h"
#include "cli/terminal.h"
#include "shared/ids.h"

namespace cli {
namespace {

using shared::Milliseconds;
using shared::Monotonic;
using shared::TimePoint;

constexpr Milliseconds kAlone{3'000};
constexpr Milliseconds kWatchPause{20};
constexpr Milliseconds kBetweenFaults{1'500};
// Only the watchdog ends these: 10 s without a beat, 2 s until SIGKILL, and the start.
constexpr Milliseconds kBetweenHangs{16'000};
constexpr Milliseconds kCellPatience{120'000};
constexpr Milliseconds kBackPatience{60'000};

double milliseconds_since(TimePoint begun) {
    return std::chrono::duration<double, std::milli>(Monotonic::now() - begun).count();
}

double percentile(std::vector<double> samples, double q) {
    if (samples.empty()) return 0;
    std::sort(samples.begin(), samples.end());
    const auto place = static_cast<std::size_t>(
        std::ceil(q * static_cast<double>(samples.size())) - 1);
    return samples[std::min(place, samples.size() - 1)];
}

Json summary(const std::vector<double>& samples) {
    return {{"n", samples.size()},
            {"p50_ms", percentile(samples, 0.5)},
            {"p99_ms", percentile(samples, 0.99)}};
}

/// What one session's thread found.
struct Worker {
    std::vector<double> cells;
    std::uint64_t bytes = 0;
    std::uint64_t lost = 0;
    std::uint64_t doubled = 0;
    std::string problem;  // the first thing that went wrong
};

struct Watched {
    std::string host;
    std::string session;
    std::vector<double> alone, beside;
    std::string problem;
};

shared::Result<Json> run_cell(Client& client, const std::string& session, const std::string& code) {
    // The same id however often it is sent: never a second run.
    const Json cell = {{"code", code}, {"operationId", shared::OperationId::make().text()}};
    const auto give_up = Monotonic::now() + kCellPatience;
    while (true) {
        auto done = client.post("/sessions/" + session + "/cells?wait=true", cell, Repeat::freely,
                                kCellPatience);
        if (done && done->contains("status")) return done;
        if (done || Monotonic::now() >= give_up)
            return done ? shared::Error{shared::ErrorCode::timed_out, "a cell did not end", {}}
                        : done.error();
        std::this_thread::sleep_for(kWatchPause);
    }
}

void work(const Common& common, const StressOptions& options, const std::string& session,
          TimePoint until, Worker& found) {
    Client client(common.home);
    const std::string code = "counted = globals().get('counted', 0) + 1\nprint('x' * " +
                             std::to_string(options.output_bytes) + ")\ncounted";
    std::int64_t expected = 0;
    for (int i = 0; i < options.cells && Monotonic::now() < until; ++i) {
        const auto begun = Monotonic::now();
        const auto done = run_cell(client, session, code);
        found.cells.push_back(milliseconds_since(begun));
        ++expected;
        const std::string value = done ? text_at(*done, "value") : "";
        if (!done || text_at(*done, "status") != "ok") {
            ++found.lost;
            if (found.problem.empty())
                found.problem = done ? text_at(*done, "status") + " " +
                                           done->value("error", Json()).dump()
                                     : done.error().message;
            continue;
        }
        const auto counted = std::strtoll(value.c_str(), nullptr, 10);
        if (counted > expected) found.doubled += static_cast<std::uint64_t>(counted - expected);
        if (counted < expected) found.lost += static_cast<std::uint64_t>(expected - counted);
        expected = counted;
        const auto bytes = done->value("output_bytes", std::uint64_t{0});
        found.bytes += bytes;
        if (bytes != static_cast<std::uint64_t>(options.output_bytes) + 1) {
            ++found.lost;
            if (found.problem.empty())
                found.problem = "a cell's output has " + std::to_string(bytes) + " bytes";
        }
    }
}

void watch(const Common& common, Watched& watched, std::atomic<bool>& loaded,
           std::atomic<bool>& over) {
    Client client(common.home);
    while (!over) {
        const auto begun = Monotonic::now();
        const auto done = run_cell(client, watched.session, "1");
        if (!done) watched.problem = done.error().message;
        (loaded ? watched.beside : watched.alone).push_back(milliseconds_since(begun));
        std::this_thread::sleep_for(kWatchPause);
    }
}

/// Injects faults until `over`; how often each, and how long until the agent answered again.
void harm(const Common& common, const StressOptions& options, std::atomic<bool>& over,
          Json& injected, std::vector<double>& back, std::string& problem) {
    Client client(common.home);
    std::mt19937 random(options.seed);
    while (!over) {
        const auto& kind = options.faults[random() % options.faults.size()];
        const auto begun = Monotonic::now();
        const auto done = client.post("/hosts/" + path_segment(options.host) + "/faults",
                                      {{"kind", kind}, {"confirm", options.host}},
                                      Repeat::only_unsent);
        if (!done) {
            if (problem.empty()) problem = "fault " + kind + ": " + done.error().message;
        } else {
            injected[kind] = injected.value(kind, 0) + 1;
            while (Monotonic::now() < begun + kBackPatience &&
                   !client.get("/hosts/" + path_segment(options.host) + "/ping"))
                std::this_thread::sleep_for(kWatchPause);
            back.push_back(milliseconds_since(begun));
        }
        const auto pause = kind == "stop" || kind == "spin" ? kBetweenHangs : kBetweenFaults;
        const auto next = begun + pause + Milliseconds(random() % 500);
        while (!over && Monotonic::now() < next) std::this_thread::sleep_for(kWatchPause);
    }
}

/// The sessions of a run, deleted with it.
class Sessions {
  public:
    explicit Sessions(Client& client) : client_(client) {}
    ~Sessions() {
        for (const auto& id : ids_) (void)client_.remove("/sessions/" + id);
    }
    Sessions(const Sessions&) = delete;
    Sessions& operator=(const Sessions&) = delete;

    /// A new session there with a kernel that answers.
    shared::Result<std::string> make(const std::string& workspace) {
        auto made = client_.post("/sessions", {{"workspace", workspace},
                                               {"operationId", shared::OperationId::make().text()}});
        if (!made) return made.error();
        ids_.push_back(text_at(*made, "id"));
        auto first = run_cell(client_, ids_.back(), "1");
        if (!first) return first.error();
        if (text_at(*first, "status") != "ok")
            return shared::Error{shared::ErrorCode::failed,
                                 "the first cell in " + workspace + " ended as " +
                                     text_at(*first, "status") + ": " +
                                     first->value("error", Json()).dump(),
                                 {}};
        return ids_.back();
    }

  private:
    Client& client_;
    std::vector<std::string> ids_;
};

std::string workspace_on(const std::string& host) {
    return host == "local" ? "~" : host + ":~";
}

std::string shown(const Json& report) {
    const auto line = [](const Json& of) {
        char text[96];
        std::snprintf(text, sizeof text, "%d cells, p50 %.1f ms, p99 %.1f ms", of.value("n", 0),
                      of.value("p50_ms", 0.0), of.value("p99_ms", 0.0));
        return std::string(text);
    };
    char rate[64];
    std::snprintf(rate, sizeof rate, "%.1f cells/s, %.1f MiB/s",
                  report["cells_per_second"].get<double>(),
                  report["bytes_per_second"].get<double>() / (1 << 20));
    std::string text = "host " + visible(text_at(report, "host")) + ": " + line(report["cells"]) +
                       ", " + rate + "\n";
    text += "lost " + report["lost"].dump() + ", doubled " + report["doubled"].dump() + "\n";
    if (!report["faults"].empty()) {
        char back[64];
        std::snprintf(back, sizeof back, "p50 %.1f ms, p99 %.1f ms",
                      report["back"]["p50_ms"].get<double>(),
                      report["back"]["p99_ms"].get<double>());
        text += "faults " + visible(report["faults"].dump()) + ", answered again after " + back +
                "\n";
    }
    for (const auto& other : report["others"]) {
        char ratio[32];
        std::snprintf(ratio, sizeof ratio, "%.2fx", other["p99_ratio"].get<double>());
        text += "beside it " + visible(text_at(other, "host")) + ": alone " + line(other["alone"]) +
                "; then " + line(other["beside"]) + "; p99 " + ratio + "\n";
    }
    for (const auto& problem : report["problems"])
        text += "problem: " + visible(problem.get<std::string>()) + "\n";
    return text + "seed " + report["seed"].dump() + ": " +
           (report["ok"].get<bool>() ? "nothing was lost, nothing ran twice" : "NOT ok") + "\n";
}

}  // namespace

shared::Result<int> run_stress(const Common& common, const StressOptions& options) {
    Client client(common.home);
    Sessions sessions(client);
    Progress progress([&] { return options.host + ": stress"; });
    std::vector<std::string> ids;
    for (int i = 0; i < options.sessions; ++i) {
        auto id = sessions.make(workspace_on(options.host));
        if (!id) return id.error();
        ids.push_back(*id);
    }
    std::vector<Watched> others;
    std::vector<std::string> hosts = options.others;
    if (options.host != "local") hosts.insert(hosts.begin(), "local");
    for (const auto& host : hosts) {
        auto id = sessions.make(workspace_on(host));
        if (!id) return id.error();
        others.push_back({host, *id, {}, {}, {}});
    }

    std::atomic<bool> loaded = false, over = false;
    std::vector<std::thread> watchers;
    for (auto& each : others)
        watchers.emplace_back([&] { watch(common, each, loaded, over); });
    if (!others.empty()) std::this_thread::sleep_for(kAlone);
    loaded = true;

    const auto begun = Monotonic::now();
    const auto until = begun + std::chrono::seconds(options.seconds);
    std::vector<Worker> workers(ids.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < ids.size(); ++i)
        threads.emplace_back([&, i] { work(common, options, ids[i], until, workers[i]); });
    Json injected = Json::object();
    std::vector<double> back;
    std::string harm_problem;
    std::thread harmer;
    if (!options.faults.empty())
        harmer = std::thread([&] { harm(common, options, over, injected, back, harm_problem); });
    for (auto& thread : threads) thread.join();
    const double seconds = milliseconds_since(begun) / 1000;
    over = true;
    for (auto& thread : watchers) thread.join();
    if (harmer.joinable()) harmer.join();
    progress.end();

    std::vector<double> cells;
    std::uint64_t bytes = 0, lost = 0, doubled = 0;
    Json problems = Json::array();
    for (const auto& worker : workers) {
        cells.insert(cells.end(), worker.cells.begin(), worker.cells.end());
        bytes += worker.bytes;
        lost += worker.lost;
        doubled += worker.doubled;
        if (!worker.problem.empty()) problems.push_back(worker.problem);
    }
    if (!harm_problem.empty()) problems.push_back(harm_problem);
    Json beside = Json::array();
    for (const auto& each : others) {
        const double alone = percentile(each.alone, 0.99);
        beside.push_back({{"host", each.host},
                          {"alone", summary(each.alone)},
                          {"beside", summary(each.beside)},
                          {"p99_ratio", alone > 0 ? percentile(each.beside, 0.99) / alone : 0}});
        if (!each.problem.empty()) problems.push_back(each.host + ": " + each.problem);
    }
    const bool good = lost == 0 && doubled == 0 && problems.empty() && !cells.empty();
    const Json report = {{"host", options.host},
                         {"ok", good},
                         {"seed", options.seed},
                         {"seconds", seconds},
                         {"cells", summary(cells)},
                         {"cells_per_second", static_cast<double>(cells.size()) / seconds},
                         {"bytes", bytes},
                         {"bytes_per_second", static_cast<double>(bytes) / seconds},
                         {"lost", lost},
                         {"doubled", doubled},
                         {"faults", injected},
                         {"back", summary(back)},
                         {"others", beside},
                         {"problems", problems}};
    write_output(common.json
                     ? report.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"
                     : shown(report));
    return good ? kOk : kFailed;
}

}  // namespace cli
