#include "cli/follow.h"

#include <unistd.h>

#include <cstdio>
#include <thread>

#include "cli/exit_codes.h"
#include "cli/interrupts.h"
#include "cli/json_fields.h"
#include "cli/terminal.h"

namespace cli {
namespace {

constexpr shared::Milliseconds kReopenPause{100};

std::string cell_path(const Cell& cell) {
    return "/sessions/" + path_segment(cell.session.id) + "/cells/" + path_segment(cell.id);
}

/// What keeps a cell from starting: "starting the kernel on gpu: staging"; empty once it runs.
std::string waiting_for(const std::filesystem::path& home, const Session& session) {
    const auto address = running_daemon(home);
    if (!address) return "waiting for the daemon";
    Client client(home);
    auto status = client.get("/sessions/" + path_segment(session.id) + "/status",
                             shared::Milliseconds(2'000));
    if (!status || !status->contains("kernel")) return "";
    const Json& kernel = (*status)["kernel"];
    const std::string link = text_at(kernel, "link");
    if (link == "attached" || link.empty()) return "";
    const std::string step = text_at(kernel, "step");
    return host_of(session.workspace) + ": " + (step.empty() ? link : step);
}

void interrupted_by_person(const std::filesystem::path& home, const Cell& cell, int count) {
    if (count > 1) {
        std::fprintf(stderr, "\nthe cell runs on; to return: albedo attach %s\n",
                     visible(cell.id).c_str());
        std::fflush(stdout);
        _exit(kInterrupted);
    }
    std::fputs("\ninterrupting the cell (Ctrl-C again leaves it running)\n", stderr);
    Client client(home);
    if (auto sent = client.post(cell_path(cell) + "/interrupt", Json::object()); !sent) {
        std::fprintf(stderr, "albedo: %s\n", visible(sent.error().message).c_str());
    }
}

/// The output printed so far and where it goes on.
struct Printed {
    std::uint64_t next = 0;  // offset of the next byte
    bool line_open = false;
    bool reader_gone = false;

    /// Prints what of `event` was not printed yet.
    void take(const SseEvent& event) {
        const Json data = Json::parse(event.data, nullptr, false);
        if (!data.is_object()) return;
        const auto offset = data.value("offset", std::uint64_t{0});
        std::string text = text_at(data, "text");
        if (offset > next) {
            std::fprintf(stderr, "\n[%llu bytes of output are no longer kept]\n",
                         static_cast<unsigned long long>(offset - next));
        }
        // The id is where the next byte stands: text may be shorter or longer than its bytes.
        std::uint64_t end = offset + text.size();
        if (!event.id.empty()) end = std::strtoull(event.id.c_str(), nullptr, 10);
        if (end <= next) return;
        if (offset < next) text.erase(0, std::min<std::uint64_t>(next - offset, text.size()));
        next = end;
        if (text.empty()) return;
        line_open = text.back() != '\n';
        reader_gone = !write_output(text);
    }
};

}  // namespace

int print_result(const Json& result, bool line_open) {
    const std::string status = text_at(result, "status");
    if (const std::string value = text_at(result, "value"); !value.empty()) {
        write_output((line_open ? "\n" : "") + value + "\n");
        line_open = false;
    }
    if (line_open && isatty(STDOUT_FILENO)) write_output("\n");
    if (status == "ok") return kOk;
    if (const auto error = result.find("error"); error != result.end() && error->is_object()) {
        std::string words = text_at(*error, "traceback");
        if (!words.empty() && !words.ends_with('\n')) words += '\n';
        // A deadline or a lost worker is not in the traceback, which shows where the cell was.
        const std::string name = text_at(*error, "name");
        if (words.empty() || words.find(name) == std::string::npos) {
            words += name + ": " + text_at(*error, "message") + "\n";
        }
        std::fputs(words.c_str(), stderr);
    } else if (status == "lost") {
        std::fputs("albedo: the kernel is gone, and the cell with it; what it did is not known\n",
                   stderr);
    }
    return status == "interrupted" ? kInterrupted : kFailed;
}

shared::Result<int> follow_cell(Client& client, const Cell& cell, bool json) {
    const Interrupts interrupts(
        [&client, &cell](int count) { interrupted_by_person(client.home(), cell, count); });
    Progress progress([&] { return waiting_for(client.home(), cell.session); });
    Printed printed;
    Json result;
    auto give_up = shared::Monotonic::now() + kFollowPatience;
    while (true) {
        const auto read = client.stream(cell_path(cell) + "/stream", std::to_string(printed.next),
                                        [&](const SseEvent& event) {
                                            give_up = shared::Monotonic::now() + kFollowPatience;
                                            if (event.name == "output" && !json) {
                                                progress.end();
                                                printed.take(event);
                                            } else if (event.name == "done") {
                                                result = Json::parse(event.data, nullptr, false);
                                            }
                                            return result.is_null() && !printed.reader_gone;
                                        });
        if (printed.reader_gone) return kFailed;
        if (!result.is_null()) break;
        const bool for_now = !read && (read.error().code == shared::ErrorCode::unreachable ||
                                       read.error().code == shared::ErrorCode::overloaded);
        if (!read && (!for_now || shared::Monotonic::now() >= give_up)) {
            auto error = read.error();
            error.message += "; the cell may still run: albedo attach " + cell.id;
            return error;
        }
        std::this_thread::sleep_for(kReopenPause);
    }
    progress.end();
    if (!result.is_object()) {
        return shared::Error{shared::ErrorCode::protocol, "the cell's result is no JSON", ""};
    }
    if (!json) return print_result(result, printed.line_open);
    write_output(result.dump() + "\n");
    const std::string status = text_at(result, "status");
    return status == "ok" ? kOk : status == "interrupted" ? kInterrupted : kFailed;
}

}  // namespace cli
