#include "cli/conversation_view.h"

#include <cstdio>
#include <thread>

#include "cli/follow.h"
#include "cli/json_fields.h"
#include "cli/terminal.h"

namespace cli {
namespace {

constexpr shared::Milliseconds kReopenPause{100};
// A call is told before its cell is sent.
constexpr shared::Milliseconds kCellAppears{2'000};
constexpr shared::Milliseconds kLookAgain{20};

std::string code_of(const std::string& arguments) {
    const Json parsed = Json::parse(arguments, nullptr, false);
    return parsed.is_object() ? text_at(parsed, "code") : arguments;
}

std::string indented(const std::string& text, const char* mark) {
    std::string lines;
    for (std::size_t at = 0; at < text.size();) {
        const auto end = std::min(text.find('\n', at), text.size());
        lines += mark + text.substr(at, end - at) + "\n";
        at = end + 1;
    }
    return lines;
}

}  // namespace

ConversationView::ConversationView(const std::filesystem::path& home, Session session, bool live)
    : home_(home), session_(std::move(session)), live_(live) {}

void ConversationView::write(const std::string& words) {
    if (words.empty()) return;
    line_open_ = words.back() != '\n';
    reader_gone_ = reader_gone_ || !write_output(words);
}

void ConversationView::line(const std::string& words) {
    write((line_open_ ? "\n" : "") + words + (words.ends_with('\n') ? "" : "\n"));
}

bool ConversationView::show(const Json& event) {
    const std::string type = text_at(event, "type");
    if (type == "text_delta") {
        const std::string piece = text_at(event, "text");
        streamed_ += piece;
        write(visible(piece, Lines::keep));
    } else if (type == "text") {
        text(text_at(event, "text"));
    } else if (type == "user") {
        line(indented(visible(text_at(event, "text"), Lines::keep), "> "));
    } else if (type == "tool_call") {
        call(event);
    } else if (type == "tool") {
        result(event);
    } else if (type == "note") {
        line("[" + visible(text_at(event, "text")) + "]");
    } else if (type == "phase") {
        const std::string reason = text_at(event, "reason");
        const std::string phase = text_at(event, "phase") + reason;
        if (!reason.empty() && phase != phase_)
            std::fprintf(stderr, "[waiting: %s]\n", visible(reason).c_str());
        phase_ = phase;
    } else if (type == "turn_completed") {
        const std::string outcome = text_at(event, "outcome");
        const std::string message = text_at(event, "message");
        if (outcome != "completed")
            line("[" + outcome + (message.empty() ? "" : ": " + visible(message)) + "]");
        else if (line_open_)
            write("\n");
    }
    return !reader_gone_;
}

/// The whole of what came in pieces, some of which may have been missed.
void ConversationView::text(const std::string& words) {
    if (words.starts_with(streamed_))
        write(visible(words.substr(streamed_.size()), Lines::keep));
    else
        line(visible(words, Lines::keep));
    if (line_open_) write("\n");
    streamed_.clear();
}

void ConversationView::call(const Json& event) {
    line(indented(visible(code_of(text_at(event, "arguments")), Lines::keep), ">>> "));
    const std::string cell = text_at(event, "cell");
    if (live_ && !cell.empty() && follow(cell)) shown_cell_ = cell;
}

/// The output as it comes, then the value. False: not all of it was shown.
bool ConversationView::follow(const std::string& cell) {
    Client client(home_);
    const auto give_up = shared::Monotonic::now() + kCellAppears;
    for (;;) {
        bool done = false;
        const auto read = client.stream(
            "/sessions/" + path_segment(session_.id) + "/cells/" + path_segment(cell) + "/stream",
            "", [&](const SseEvent& event) {
                const Json data = Json::parse(event.data, nullptr, false);
                if (!data.is_object()) return true;
                if (event.name == "output") write(text_at(data, "text"));
                if (event.name == "done") {
                    print_result(data, line_open_);
                    line_open_ = false;
                    done = true;
                }
                return !done && !reader_gone_;
            });
        if (done) return true;
        if (read || read.error().code != shared::ErrorCode::not_found ||
            shared::Monotonic::now() >= give_up)
            return false;
        std::this_thread::sleep_for(kLookAgain);
    }
}

void ConversationView::result(const Json& event) {
    const Json parsed = Json::parse(text_at(event, "result"), nullptr, false);
    if (!parsed.is_object()) return;
    const std::string cell = text_at(parsed, "cell_id");
    if (!cell.empty() && cell == std::exchange(shown_cell_, {})) return;
    write(text_at(parsed, "output"));
    print_result(parsed, line_open_);
    line_open_ = false;
    const std::string status = text_at(parsed, "status");
    if (status != "ok") line("[the cell: " + visible(status) + "]");
}

shared::Result<void> follow_session(Client& client, const Session& session, int first,
                                    const std::function<bool(const Json&)>& on_event) {
    const std::string path =
        "/sessions/" + path_segment(session.id) + "/stream?tail=" + std::to_string(first);
    std::string last;
    std::int64_t last_row = 0;
    auto give_up = shared::Monotonic::now() + kFollowPatience;
    for (;;) {
        bool wanted = true;
        const auto read = client.stream(path, last, [&](const SseEvent& event) {
            give_up = shared::Monotonic::now() + kFollowPatience;
            if (event.name != "message") return true;
            last = event.id;
            const Json batch = Json::parse(event.data, nullptr, false);
            if (!batch.is_object()) return true;
            for (const Json& each : batch.value("events", Json::array())) {
                const auto row = each.value("row", std::int64_t{0});
                if (row != 0 && row <= last_row) continue;  // shown before the break
                last_row = std::max(last_row, row);
                wanted = wanted && on_event(each);
            }
            return wanted;
        });
        if (!wanted) return {};
        const bool for_now = read || read.error().code == shared::ErrorCode::unreachable ||
                             read.error().code == shared::ErrorCode::overloaded;
        if (!for_now || shared::Monotonic::now() >= give_up)
            return read ? shared::Result<void>() : shared::Result<void>(read.error());
        std::this_thread::sleep_for(kReopenPause);
    }
}

}  // namespace cli
