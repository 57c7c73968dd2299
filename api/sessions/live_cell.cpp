#include "api/sessions/live_cell.h"

namespace sessions {

using nlohmann::json;

json cell_json(const store::CellRow& row) {
    json result = {{"cell_id", row.id.text()},
                   {"status", store::to_string(row.status)},
                   {"output", row.output},
                   {"value", row.value},
                   {"truncated", row.truncated},
                   {"output_bytes", row.output_bytes},
                   {"started_at", row.started_at == 0 ? json(nullptr) : json(row.started_at)},
                   {"ms", row.ms}};
    // Both were dumped by us from parsed JSON.
    if (!row.error.empty()) result["error"] = json::parse(row.error, nullptr, false);
    if (!row.images.empty()) result["images"] = json::parse(row.images, nullptr, false);
    return result;
}

}  // namespace sessions
