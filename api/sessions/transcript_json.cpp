#include "api/sessions/transcript_json.h"

#include "api/providers/provider_json.h"

namespace sessions {
namespace {

using nlohmann::json;
using providers::dump_json;
using providers::number_of;
using providers::text_of;

struct Kind {
    const char* operator()(const UserRow&) const { return "user"; }
    const char* operator()(const TextRow&) const { return "text"; }
    const char* operator()(const ThinkingRow&) const { return "thinking"; }
    const char* operator()(const ToolCallRow&) const { return "tool_call"; }
    const char* operator()(const ToolResultRow&) const { return "tool"; }
    const char* operator()(const NoteRow&) const { return "note"; }
    const char* operator()(const TurnCompletedRow&) const { return "turn_completed"; }
};

struct Fields {
    json operator()(const UserRow& row) const {
        return {{"text", row.text},
                {"operationId", row.operation_id},
                {"clientId", row.client_id},
                {"source", row.source}};
    }
    json operator()(const TextRow& row) const { return {{"text", row.text}}; }
    json operator()(const ThinkingRow& row) const {
        return {{"text", row.text}, {"elapsedMs", row.elapsed_ms}};
    }
    json operator()(const ToolCallRow& row) const {
        return {{"call_id", row.call_id},
                {"name", row.name},
                {"arguments", row.arguments},
                {"cell", row.cell ? json(row.cell->text()) : json(nullptr)}};
    }
    json operator()(const ToolResultRow& row) const {
        return {{"call", row.call}, {"name", row.name}, {"result", row.result}};
    }
    json operator()(const NoteRow& row) const { return {{"text", row.text}}; }
    json operator()(const TurnCompletedRow& row) const {
        return {
            {"operationId", row.operation_id}, {"outcome", row.outcome}, {"message", row.message}};
    }
};

}  // namespace

const char* kind_of(const RowContent& content) {
    return std::visit(Kind{}, content);
}

std::string stored_form(const RowContent& content) {
    return dump_json(std::visit(Fields{}, content));
}

shared::Result<RowContent> from_stored_form(std::string_view kind, std::string_view text) {
    const auto stored = providers::parse_json(text);
    if (!stored || !stored->is_object())
        return shared::Error{shared::ErrorCode::storage, "a transcript row cannot be read", {}};
    const json& value = *stored;
    if (kind == "user")
        return RowContent(UserRow{text_of(value, "text"), text_of(value, "operationId"),
                                  text_of(value, "clientId"), text_of(value, "source")});
    if (kind == "text") return RowContent(TextRow{text_of(value, "text")});
    if (kind == "thinking")
        return RowContent(ThinkingRow{text_of(value, "text"), number_of(value, "elapsedMs")});
    if (kind == "tool_call")
        return RowContent(ToolCallRow{text_of(value, "call_id"), text_of(value, "name"),
                                      text_of(value, "arguments"),
                                      shared::CellId::parse(text_of(value, "cell"))});
    if (kind == "tool")
        return RowContent(ToolResultRow{number_of(value, "call"), text_of(value, "name"),
                                        text_of(value, "result")});
    if (kind == "note") return RowContent(NoteRow{text_of(value, "text")});
    if (kind == "turn_completed")
        return RowContent(TurnCompletedRow{text_of(value, "operationId"), text_of(value, "outcome"),
                                           text_of(value, "message")});
    return shared::Error{shared::ErrorCode::storage,
                         "the transcript holds a row of the unknown kind " + std::string(kind),
                         {}};
}

std::string event_form(const TranscriptRow& row) {
    json event = std::visit(Fields{}, row.content);
    event["type"] = kind_of(row.content);
    event["row"] = row.seq;
    event["at"] = row.at_ms;
    return dump_json(event);
}

std::string delta_event(const char* type, std::string_view text) {
    return dump_json({{"type", type}, {"text", text}});
}

std::string phase_event(const char* phase, std::string_view reason, int attempt,
                        std::int64_t retry_in_ms) {
    return dump_json({{"type", "phase"},
                      {"phase", phase},
                      {"reason", reason},
                      {"attempt", attempt},
                      {"retryInMs", retry_in_ms}});
}

std::string job_event(const json& job) {
    json event = {{"type", "job"}};
    for (const char* field : {"job", "state", "pid", "command", "exit_code", "end", "ms"})
        if (const auto found = job.find(field); found != job.end() && found->is_primitive())
            event[field] = *found;
    return dump_json(event);
}

}  // namespace sessions
