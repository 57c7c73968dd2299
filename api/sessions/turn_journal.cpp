#include "api/sessions/turn_journal.h"

#include <algorithm>

#include "api/providers/provider_json.h"
#include "api/sessions/operation_ids.h"
#include "api/sessions/transcript_json.h"
#include "api/store/cells_table.h"
#include "api/store/transcript_table.h"
#include "shared/clock.h"

namespace sessions::journal {

using nlohmann::json;
using shared::Error;
using shared::ErrorCode;
using shared::OperationId;
using shared::Result;
using shared::SessionId;
using store::Connection;

namespace {
constexpr const char* kKind = "input";
constexpr std::size_t kLoadedBytes = 3 * kMaxRequestBytes;
constexpr const char* kDelivered = "delivered";
constexpr const char* kReceipt = "receipt";

Result<json> stored_receipt(Connection& connection, OperationId operation) {
    auto row = store::find_operation(connection, operation);
    if (!row) return std::move(row).error();
    auto value = *row ? providers::parse_json((*row)->result) : std::nullopt;
    return value && value->is_object() ? *value : json::object();
}
}  // namespace

Result<std::optional<std::string>> repeated(Connection& connection, OperationId operation,
                                            const std::string& intent) {
    auto known = store::find_operation(connection, operation);
    if (!known) return std::move(known).error();
    if (*known) {
        if ((*known)->kind != kKind || (*known)->intent != intent)
            return Error{ErrorCode::conflict, "operationId was used for something else", {}};
        const auto value = providers::parse_json((*known)->result);
        if (!value) return Error{ErrorCode::storage, "a receipt cannot be read", {}};
        return std::optional(providers::dump_json(providers::member_of(*value, kReceipt)));
    }
    auto cell = store::find_cell(connection, shared::CellId{operation.uuid});
    if (!cell) return std::move(cell).error();
    if (*cell) return Error{ErrorCode::conflict, "operationId belongs to a cell", {}};
    return std::optional<std::string>();
}

Result<Admission> admit(Connection& connection, const store::InputRow& input,
                        const std::string& intent, const std::string& receipt) {
    auto earlier = repeated(connection, input.operation, intent);
    if (!earlier) return std::move(earlier).error();
    if (*earlier) return Admission{false, input, **earlier};
    if (too_old(input.operation, std::chrono::system_clock::now()))
        return Error{ErrorCode::expired, "operationId is unknown and older than 7 days", {}};
    auto waiting = store::count_inputs(connection, input.session);
    if (!waiting) return std::move(waiting).error();
    if (*waiting >= kWaitingInputs)
        return Error{ErrorCode::conflict, "32 inputs wait in this session already", {}};
    auto seq = store::insert_input(connection, input);
    if (!seq) {
        if (seq.error().code == ErrorCode::invalid)
            return Error{ErrorCode::not_found, "no such session", {}};
        return std::move(seq).error();
    }
    const auto answer = providers::parse_json(receipt);
    auto kept = store::insert_operation(
        connection, {input.operation, kKind, intent,
                     providers::dump_json({{kReceipt, answer.value_or(json::object())},
                                           {kDelivered, false},
                                           {"session", input.session.text()}}),
                     input.created_ms});
    if (!kept) return std::move(kept).error();
    Admission admission{true, input, receipt};
    admission.input.seq = *seq;
    return admission;
}

Result<Rows> append(Connection& connection, SessionId session, std::vector<RowContent> contents) {
    Rows rows;
    for (auto& content : contents) {
        const auto now = shared::wall_ms();
        auto seq = store::append_transcript(connection, session,
                                            {0, now, kind_of(content), stored_form(content)});
        if (!seq) return std::move(seq).error();
        rows.push_back({*seq, now, std::move(content)});
    }
    return rows;
}

Result<Rows> consume(Connection& connection, const store::InputRow& input) {
    auto taken = store::delete_input(connection, input.operation);
    if (!taken) return std::move(taken).error();
    if (!*taken) return Error{ErrorCode::conflict, "the input was cancelled", {}};
    if (auto opened = store::insert_turn(
            connection,
            {input.session, input.operation, input.submission_id, false, shared::wall_ms()});
        !opened)
        return std::move(opened).error();
    auto receipt = stored_receipt(connection, input.operation);
    if (!receipt) return std::move(receipt).error();
    (*receipt)[kDelivered] = true;
    if (auto kept = store::set_operation_result(connection, input.operation,
                                                providers::dump_json(*receipt));
        !kept)
        return std::move(kept).error();
    return append(connection, input.session,
                  {UserRow{input.text, input.operation.text(), input.client_id, input.source}});
}

Result<Rows> answered(Connection& connection, SessionId session, std::vector<RowContent> contents,
                      std::int64_t notes_through) {
    if (notes_through > 0)
        if (auto told = store::delete_model_notes(connection, session, notes_through); !told)
            return std::move(told).error();
    return append(connection, session, std::move(contents));
}

Result<Rows> finish(Connection& connection, SessionId session, const std::string& broken_off,
                    const TurnCompletedRow& row) {
    if (const auto operation = OperationId::parse(row.operation_id)) {
        auto receipt = stored_receipt(connection, *operation);
        if (!receipt) return std::move(receipt).error();
        (*receipt)["outcome"] = row.outcome;
        (*receipt)["message"] = row.message;
        if (auto kept =
                store::set_operation_result(connection, *operation, providers::dump_json(*receipt));
            !kept)
            return std::move(kept).error();
    }
    if (auto closed = store::delete_turn(connection, session); !closed)
        return std::move(closed).error();
    std::vector<RowContent> contents;
    if (!broken_off.empty()) contents.push_back(TextRow{broken_off});
    contents.push_back(row);
    return append(connection, session, std::move(contents));
}

Result<Rows> rows_of(const std::vector<store::StoredTranscriptRow>& stored) {
    Rows rows;
    rows.reserve(stored.size());
    for (const auto& row : stored) {
        auto content = from_stored_form(row.kind, row.content);
        if (!content) return std::move(content).error();
        rows.push_back({row.seq, row.at_ms, std::move(*content)});
    }
    return rows;
}

Result<Rows> newest_rows(Connection& connection, SessionId session) {
    auto page = store::transcript_page(connection, session, 0, 0, kLoadedBytes);
    if (!page) return std::move(page).error();
    auto rows = rows_of(page->rows);
    if (!rows || !page->more) return rows;
    // Half a turn says nothing to a model; a single one that is longer than that is shown from
    // where it begins here.
    const auto first = std::find_if(rows->begin(), rows->end(), [](const TranscriptRow& row) {
        return std::holds_alternative<UserRow>(row.content);
    });
    if (first != rows->end()) rows->erase(rows->begin(), first);
    return rows;
}

Result<std::optional<OperationState>> operation_state(Connection& connection,
                                                      OperationId operation) {
    auto row = store::find_operation(connection, operation);
    if (!row) return std::move(row).error();
    if (!*row) {
        // A cell's row is its receipt.
        auto cell = store::find_cell(connection, shared::CellId{operation.uuid});
        if (!cell) return std::move(cell).error();
        if (!*cell) return std::optional<OperationState>();
        return std::optional(
            OperationState{"committed", "cell",
                           providers::dump_json({{"session", (*cell)->session.text()},
                                                 {"status", store::to_string((*cell)->status)}})});
    }
    if ((*row)->kind != kKind)
        return std::optional(OperationState{"committed", (*row)->kind,
                                            providers::dump_json({{"id", (*row)->result}})});
    auto waits = store::has_input(connection, operation);
    if (!waits) return std::move(waits).error();
    auto value = providers::parse_json((*row)->result);
    if (!value || !value->is_object()) value = json::object();
    const bool delivered = value->value(kDelivered, false);
    value->erase(kDelivered);
    value->erase(kReceipt);
    return std::optional(OperationState{*waits      ? "pending"
                                        : delivered ? "committed"
                                                    : "cancelled",
                                        kKind, providers::dump_json(*value)});
}

}  // namespace sessions::journal
