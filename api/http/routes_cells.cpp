#include "api/http/routes_cells.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "api/http/errors.h"
#include "api/http/json_codec.h"
#include "api/http/sse.h"
#include "api/sessions/operation_ids.h"

namespace http {

using sessions::CellHandle;
using shared::Error;
using shared::ErrorCode;
using shared::Monotonic;
using shared::Result;

namespace {
constexpr std::size_t kCodeBytes = 6u << 20;  // a frame has 8 MiB, escapes included
constexpr std::int64_t kLongestTimeout = 30LL * 24 * 3'600'000;
constexpr shared::Milliseconds kLongestWait{600'000};  // of ?wait=true; then 202 as it stands
constexpr std::size_t kStreamPiece = 64 * 1024;
constexpr std::size_t kRawPiece = 256 * 1024;
constexpr std::size_t kDefaultPage = 64 * 1024;
constexpr int kListed = 100;

Result<CellHandle> cell_of(RouteWorld& world, const Request& request) {
    auto session = session_of(request);
    if (!session) return session.error();
    const auto id = shared::CellId::parse(request.parameter("cell"));
    if (!id) return Error{ErrorCode::not_found, "no such cell in this session", {}};
    return world.cells.find(*session, *id, request_deadline());
}

Result<std::uint64_t> number_in(const std::optional<std::string>& text, std::uint64_t otherwise,
                                const char* name) {
    if (!text) return otherwise;
    std::uint64_t number = 0;
    const char* end = text->data() + text->size();
    const auto [stop, failed] = std::from_chars(text->data(), end, number);
    if (failed != std::errc() || stop != end || number > INT64_MAX)
        return Error{ErrorCode::invalid, std::string(name) + " must be a whole number", {}};
    return number;
}

Response run_cell(RouteWorld& world, const Request& request) {
    auto session = session_of(request);
    if (!session) return error_response(session.error());
    Fields fields(request.body);
    sessions::CellRequest cell;
    cell.code = fields.text("code");
    cell.timeout_ms = fields.optional_integer("timeout_ms", 1, kLongestTimeout).value_or(0);
    const auto operation = fields.optional_text("operationId");
    if (auto read = fields.finish(); !read) return error_response(read.error());
    cell.id = shared::CellId::make();
    if (operation) {
        auto id = sessions::parse_operation_id(*operation, std::chrono::system_clock::now());
        if (!id) return error_response(id.error());
        cell.id.uuid = id->uuid;
    }
    auto handle = world.cells.submit(*session, cell, request_deadline());
    if (!handle) return error_response(handle.error());
    const Json taken = {{"cellId", cell.id.text()}, {"operationId", cell.id.text()}};
    const auto wait = request.query("wait");
    if (wait && *wait != "false" && request.client != nullptr) {
        const auto until = Monotonic::now() + kLongestWait;
        sessions::Cells::Watch watch(world.cells, *handle,
                                     [waker = request.client->waker()] { waker->wake(); });
        while (!world.cells.settled(*handle) && request.client->wait(until) == Wake::woken) {
        }
    }
    if (auto kept = world.cells.wait_kept(*handle, request_deadline()); !kept)
        return error_response(kept.error());
    const auto row = world.cells.row(*handle);
    if (!wait || *wait == "false" || !store::finished(row.status)) return json_response(taken, 202);
    Json answer = sessions::cell_json(row);
    answer.update(taken);
    return json_response(answer);
}

Response list_cells(RouteWorld& world, const Request& request) {
    auto session = session_of(request);
    if (!session) return error_response(session.error());
    auto rows = world.cells.recent(*session, kListed, request_deadline());
    if (!rows) return error_response(rows.error());
    Json cells = Json::array();
    for (const auto& row : *rows) cells.push_back(sessions::cell_json(row));
    return json_response(cells);
}

Response get_cell(RouteWorld& world, const Request& request) {
    auto cell = cell_of(world, request);
    if (!cell) return error_response(cell.error());
    return json_response(world.cells.describe(*cell));
}

/// Calls `take` with each piece of output from `offset` on, until the cell has ended and all came
/// (true), or `take` or `wait` gives up (false). `waker` is the one that `wait` hears.
template <class Wait, class Take>
bool each_piece(RouteWorld& world, const CellHandle& cell, std::uint64_t offset, std::size_t limit,
                const std::shared_ptr<Waker>& waker, Wait wait, Take take) {
    sessions::Cells::Reader reader(world.cells, cell);
    sessions::Cells::Watch watch(world.cells, cell, [waker] { waker->wake(); });
    for (bool late = false;;) {
        auto part = world.cells.follow(cell, offset, limit, late, request_deadline());
        late = false;
        if (part && part->bytes.empty() && part->ended) return true;
        if (!part || part->bytes.empty()) {
            const bool ended = store::finished(world.cells.row(cell).status);
            if (!part && ended && part.error().code == ErrorCode::gone) return true;
            const auto until = Monotonic::now() + (ended ? sessions::kLateBytes : kKeepAlivePeriod);
            const Wake wake = wait(until);
            if (wake == Wake::gone) return false;
            late = wake == Wake::timed_out;
            continue;
        }
        offset = part->offset + part->bytes.size();
        if (!take(*part)) return false;
        if (part->ended) return true;
    }
}

/// Output from `offset` on, then the result. Bytes become text at whole characters.
void stream_cell(RouteWorld& world, const CellHandle& cell, std::uint64_t offset,
                 EventStream& events) {
    std::string carried;  // the start of a character whose end has not come
    const auto send = [&](std::uint64_t from, std::string_view text) {
        const std::string data = dump_json({{"offset", from}, {"text", text}});
        return events.send({std::to_string(from + text.size()), "output", data});
    };
    const auto take = [&](const sessions::OutputPart& part) {
        if (part.offset != offset) carried.clear();
        const std::uint64_t from = part.offset - carried.size();
        offset = part.offset + part.bytes.size();
        carried += part.bytes;
        const std::size_t whole = part.ended ? carried.size() : whole_characters(carried);
        if (whole > 0 && !send(from, std::string_view(carried).substr(0, whole))) return false;
        carried.erase(0, whole);
        return true;
    };
    if (!each_piece(
            world, cell, offset, kStreamPiece, events.waker(),
            [&](shared::TimePoint until) { return events.wait(until); }, take))
        return;
    if (!carried.empty() && !send(offset - carried.size(), carried)) return;
    events.send(
        {std::to_string(offset), "done", dump_json(sessions::cell_json(world.cells.row(cell)))});
}

/// The bytes themselves. A stretch that is lost cannot be told within them: the response then ends
/// without its end.
void stream_bytes(RouteWorld& world, const CellHandle& cell, std::uint64_t offset,
                  StreamWriter& writer) {
    const bool ended = each_piece(
        world, cell, offset, kRawPiece, writer.client().waker(),
        [&](shared::TimePoint until) { return writer.client().wait(until); },
        [&](const sessions::OutputPart& part) {
            if (part.offset != offset)
                throw std::runtime_error("output that a reader follows is no longer kept");
            offset += part.bytes.size();
            return writer.write(part.bytes);
        });
    if (const auto all = world.cells.row(cell).output_bytes; ended && offset < all)
        throw std::runtime_error("the rest of the output is gone");
}

Response cell_output(RouteWorld& world, const Request& request) {
    auto offset = number_in(request.query("offset"), 0, "offset");
    auto limit = number_in(request.query("limit"), kDefaultPage, "limit");
    if (!offset) return error_response(offset.error());
    if (!limit) return error_response(limit.error());
    auto cell = cell_of(world, request);
    if (!cell) return error_response(cell.error());
    const auto follow = request.query("follow");
    if (follow && *follow != "false") {
        Response response;
        response.content_type = "application/octet-stream";
        response.stream = [&world, cell = *cell, from = *offset](StreamWriter& writer) {
            stream_bytes(world, cell, from, writer);
        };
        return response;
    }
    auto part = world.cells.read(
        *cell, *offset, std::min<std::uint64_t>(*limit, sessions::kMaxPage), request_deadline());
    if (!part) return error_response(part.error());
    Response response;
    response.content_type = "application/octet-stream";
    response.body = std::move(part->bytes);
    response.headers.emplace_back("X-Albedo-Output-Bytes", std::to_string(part->output_bytes));
    return response;
}

Response follow_cell(RouteWorld& world, const Request& request) {
    auto offset = number_in(request.header("last-event-id"), 0, "Last-Event-ID");
    if (!offset) return error_response(offset.error());
    auto cell = cell_of(world, request);
    if (!cell) return error_response(cell.error());
    return event_stream([&world, cell = *cell, from = *offset](EventStream& events) {
        stream_cell(world, cell, from, events);
    });
}

Response interrupt_cell(RouteWorld& world, const Request& request) {
    auto cell = cell_of(world, request);
    if (!cell) return error_response(cell.error());
    Fields fields(request.body.empty() ? "{}" : request.body);
    const bool force = fields.boolean_or("force", false);
    if (auto read = fields.finish(); !read) return error_response(read.error());
    if (auto sent = world.cells.interrupt(*cell, force); !sent) return error_response(sent.error());
    return json_response(world.cells.describe(*cell), 202);
}
}  // namespace

std::size_t whole_characters(std::string_view bytes) {
    // Look back for the head of the last character; the rest is for the reader to judge.
    for (std::size_t back = 1; back <= 3 && back <= bytes.size(); ++back) {
        const auto byte = static_cast<unsigned char>(bytes[bytes.size() - back]);
        if ((byte & 0xC0) == 0x80) continue;
        const std::size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
        return length > back ? bytes.size() - back : bytes.size();
    }
    return bytes.size();
}

void add_cell_routes(Server& server, RouteWorld& world) {
    const auto bind = [&world](auto handler) {
        return [&world, handler](const Request& request) { return handler(world, request); };
    };
    server.route("POST", "/sessions/:id/cells", bind(run_cell), {.body_limit = kCodeBytes});
    server.route("GET", "/sessions/:id/cells", bind(list_cells));
    server.route("GET", "/sessions/:id/cells/:cell", bind(get_cell));
    server.route("GET", "/sessions/:id/cells/:cell/output", bind(cell_output));
    server.route("GET", "/sessions/:id/cells/:cell/stream", bind(follow_cell));
    server.route("POST", "/sessions/:id/cells/:cell/interrupt", bind(interrupt_cell));
}

}  // namespace http
