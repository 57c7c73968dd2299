// A cell that somebody may be waiting for: its row as it stands now, its output, and who waits.
// Guarded by the Monitor. Held by shared_ptr, so a waiter keeps it although the session let it go.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "api/sessions/cell_output.h"
#include "api/store/cells_table.h"

namespace sessions {

struct LiveCell {
    LiveCell(store::CellRow made, std::uint64_t first_credit)
        : row(std::move(made)), output(first_credit) {}

    store::CellRow row;
    CellOutput output;
    std::condition_variable changed;  // by notify(), at every change of what stands here
    bool kept = false;                // the row is on disk
    std::string keep_failed;          // or why it is not
    bool maybe_sent = false;          // the kernel may have it: never to be run by another kernel
    bool backgrounded = false;
    int interrupt_step = 0;  // 1-3: SIGINT was sent so often; 4: it did not react
    std::string interrupt_text;

    std::map<std::uint64_t, std::function<void()>> watchers;  // see Cells::Watch

    bool finished() const { return store::finished(row.status); }
    void notify() {
        changed.notify_all();
        for (const auto& [id, wake] : watchers) wake();
    }
};

/// The shape of a cell's result, as every route and the model's tool give it.
nlohmann::json cell_json(const store::CellRow& row);

}  // namespace sessions
