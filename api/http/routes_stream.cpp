// What a client sees of a session's conversation.
//
//   GET /sessions/:id/status  -> {"running", "phase", "reason", "attempt", "retryInMs",
//        "operationId", "waiting", "kernel": {...}}; running: a prompt waits, or a turn or a cell in
//        the foreground is under way.
//   GET /sessions/:id/history ?rows=&before= -> {"events", "more", "before"}: the newest page, then
//        the one before its first row.
//   GET /sessions/:id/stream  ?after_generation=&after_seq=&tail=, or Last-Event-ID: server-sent
//        events, each {"generation", "cursor", "events": [...]} under the id GENERATION:CURSOR.
//        A client that names a cursor still held goes on behind it. To any other the first batch
//        is `reset` and then the whole transcript (its last `tail` rows). A reader that is too slow
//        gets the event `overflow` and is closed; it comes back with its last id. A transcript that
//        cannot be read is the event `failure`, without a cursor.
#include <charconv>

#include "api/http/errors.h"
#include "api/http/route_world.h"
#include "api/http/routes_sessions.h"
#include "api/http/sse.h"
#include "api/http/turn_routes.h"
#include "api/sessions/transcript_json.h"

namespace http {

using shared::Error;
using shared::ErrorCode;
using shared::Monotonic;
using shared::Result;

namespace {
constexpr std::uint64_t kDefaultRows = 200;
constexpr std::uint64_t kMaxRows = 1000;
constexpr std::chrono::minutes kLookAround{1};  // a waiting stream is woken, this is only a bound

std::optional<std::uint64_t> number(std::string_view text) {
    std::uint64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, failed] = std::from_chars(text.data(), end, value);
    if (failed != std::errc() || stop != end || value > INT64_MAX) return std::nullopt;
    return value;
}

Result<std::uint64_t> number_in(const Request& request, const char* name, std::uint64_t otherwise) {
    const auto text = request.query(name);
    if (!text) return otherwise;
    if (const auto value = number(*text)) return *value;
    return Error{ErrorCode::invalid, std::string(name) + " must be a whole number", {}};
}

/// A cell that somebody may be waiting for: not one that goes on in the background, nor one whose
/// interrupt waits for its host to come back. The Monitor is held.
bool has_foreground_cell(const sessions::Session& session) {
    const auto* link = session.link();
    const bool away = link == nullptr || link->state() != sessions::LinkState::attached;
    for (const auto& [id, cell] : session.cells())
        if (!cell->finished() && !cell->backgrounded && !(away && cell->row.interrupt > 0))
            return true;
    return false;
}

Response status(TurnRoutes& world, const Request& request) {
    auto id = session_of(request);
    if (!id) return error_response(id.error());
    auto& all = world.turns.world().sessions;
    auto lock = all.world().link.monitor.lock();
    const auto session = all.find(lock, *id);
    if (!session) return error_response({ErrorCode::not_found, "no such session", {}});
    const auto state = world.turns.state(lock, *id);
    const bool running = state.running || session->turn_open || has_foreground_cell(*session);
    Json answer = {{"running", running},
                   {"phase", state.running ? state.turn.phase
                             : running     ? "cell"
                                           : "idle"},
                   {"reason", state.turn.reason.empty() ? Json(nullptr) : Json(state.turn.reason)},
                   {"attempt", state.turn.attempt},
                   {"retryInMs", state.turn.retry_in_ms},
                   {"operationId", state.operation.empty() ? Json(nullptr) : Json(state.operation)},
                   {"waiting", state.waiting},
                   {"kernel", kernel_json(*session, world.hosts.find(lock, session->row.host))}};
    lock.unlock();
    return json_response(answer);
}

std::string joined(const std::vector<sessions::TranscriptRow>& rows) {
    std::string events;
    for (const auto& row : rows) {
        if (!events.empty()) events += ',';
        events += sessions::event_form(row);
    }
    return events;
}

Response history(TurnRoutes& world, const Request& request) {
    auto id = session_of(request);
    if (!id) return error_response(id.error());
    auto rows = number_in(request, "rows", kDefaultRows);
    if (!rows) return error_response(rows.error());
    auto before = number_in(request, "before", 0);
    if (!before) return error_response(before.error());
    if (auto found = world.turns.conversation(*id); !found) return error_response(found.error());
    auto page =
        world.turns.history(*id, static_cast<std::int64_t>(*before),
                            std::clamp<std::uint64_t>(*rows, 1, kMaxRows), request_deadline());
    if (!page) return error_response(page.error());
    const auto first = page->rows.empty() ? 0 : page->rows.front().seq;
    Response response;
    response.body = "{\"events\":[" + joined(page->rows) +
                    "],\"more\":" + (page->more ? "true" : "false") +
                    ",\"before\":" + std::to_string(first) + "}";
    return response;
}

class Follower {
  public:
    Follower(TurnRoutes& world, std::shared_ptr<sessions::Conversation> conversation,
             std::string generation, std::optional<std::uint64_t> after, std::uint64_t tail)
        : world_(world),
          conversation_(std::move(conversation)),
          generation_(std::move(generation)),
          after_(after),
          tail_(tail) {}

    void run(EventStream& events) {
        auto subscription = conversation_->log.subscribe(generation_, after_);
        subscription.set_wake([waker = events.waker()] { waker->wake(); });
        if (subscription.is_reset() && !send_history(events, subscription)) return;
        while (deliver(events, subscription))
            if (events.wait(Monotonic::now() + kLookAround) == Wake::gone) return;
    }

  private:
    /// What has come since. False: this stream ends. A function of its own, so that a stream that
    /// waits holds no more stack than it must.
    bool deliver(EventStream& events, sessions::EventLog::Subscription& subscription) {
        const auto batch = subscription.take();
        if (!batch.events.empty()) {
            std::string joined_events;
            for (const auto& event : batch.events) {
                if (!joined_events.empty()) joined_events += ',';
                joined_events += *event.json;
            }
            if (!send(events, batch.events.back().cursor, joined_events)) return false;
        }
        if (batch.overflowed) {
            events.send({"", "overflow", "{\"error\":\"this reader is too slow\"}"});
            return false;
        }
        return !batch.closed;
    }

    bool send_history(EventStream& events, sessions::EventLog::Subscription& subscription) {
        auto page = world_.turns.history(conversation_->session, 0, tail_, request_deadline());
        if (!page) {
            events.send({"", "failure",
                         dump_json({{"error", page.error().message},
                                    {"code", shared::to_string(page.error().code)}})});
            return false;
        }
        if (!page->rows.empty()) subscription.skip_rows_through(page->rows.back().seq);
        const auto rows = joined(page->rows);
        return send(events, subscription.start(),
                    rows.empty() ? "{\"type\":\"reset\"}" : "{\"type\":\"reset\"}," + rows);
    }

    bool send(EventStream& events, std::uint64_t cursor, const std::string& joined_events) {
        const std::string& generation = conversation_->log.generation();
        const std::string data = "{\"generation\":\"" + generation +
                                 "\",\"cursor\":" + std::to_string(cursor) + ",\"events\":[" +
                                 joined_events + "]}";
        return events.send({generation + ":" + std::to_string(cursor), "", data});
    }

    TurnRoutes& world_;
    const std::shared_ptr<sessions::Conversation> conversation_;
    const std::string generation_;
    const std::optional<std::uint64_t> after_;
    const std::uint64_t tail_;
};

Response stream(TurnRoutes& world, const Request& request) {
    auto id = session_of(request);
    if (!id) return error_response(id.error());
    auto tail = number_in(request, "tail", 0);
    if (!tail) return error_response(tail.error());
    auto conversation = world.turns.conversation(*id);
    if (!conversation) return error_response(conversation.error());
    std::string generation = request.query("after_generation").value_or("");
    std::optional<std::uint64_t> after;
    if (const auto seq = request.query("after_seq")) after = number(*seq);
    // A client's own reconnect knows better than the address it began with.
    if (const auto last = request.header("last-event-id")) {
        const auto colon = last->find(':');
        generation = last->substr(0, colon);
        after = colon == std::string::npos ? std::nullopt : number(last->substr(colon + 1));
    }
    auto follower = std::make_shared<Follower>(world, *conversation, generation, after, *tail);
    return event_stream([follower](EventStream& events) { follower->run(events); });
}
}  // namespace

void add_stream_routes(Server& server, TurnRoutes& world) {
    const auto bind = [&world](auto handler) {
        return [&world, handler](const Request& request) { return handler(world, request); };
    };
    server.route("GET", "/sessions/:id/status", bind(status));
    server.route("GET", "/sessions/:id/history", bind(history));
    server.route("GET", "/sessions/:id/stream", bind(stream));
}

}  // namespace http
