#include "api/memory/memory_calls.h"

#include <ctime>

#include "api/store/memory_table.h"
#include "api/workspaces/location.h"

namespace memory {
namespace {

using nlohmann::json;
using sessions::KernelCall;
using shared::Error;
using shared::ErrorCode;
using shared::Monotonic;
using shared::Result;

constexpr shared::Milliseconds kStoreDeadline{30'000};
constexpr std::size_t kMaxWaiting = 1024;
constexpr std::size_t kMaxTextsBytes = 7 << 20;  // one answer, so that it fits in a frame

Error missing(const KernelCall& call, const char* name) {
    return {ErrorCode::invalid, call.method + ": " + name + " must be a text", {}};
}

const std::string* text_of(const json& args, const char* name) {
    const auto found = args.find(name);
    return found != args.end() && found->is_string() ? found->get_ptr<const std::string*>()
                                                     : nullptr;
}

/// "2026-12-01", by the clock on the wall.
std::string today() {
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    ::localtime_r(&now, &local);
    char text[16];
    std::strftime(text, sizeof text, "%Y-%m-%d", &local);
    return text;
}

bool is_date(const std::string& text) {
    if (text.size() != 10) return false;
    for (std::size_t i = 0; i < 10; ++i) {
        const bool dash = i == 4 || i == 7;
        if (dash ? text[i] != '-' : text[i] < '0' || text[i] > '9') return false;
    }
    return true;
}

}  // namespace

MemoryCalls::MemoryCalls(store::Database& database, workspaces::Links& links, MemoryFiles files)
    : database_(database), links_(links), files_(std::move(files)), thread_([this] { work(); }) {
    database_.post(
        [](store::Connection& connection) { return store::delete_old_plans(connection); },
        [](const Result<void>&) {});
}

void MemoryCalls::stop() {
    {
        const std::lock_guard lock(mutex_);
        closing_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

void MemoryCalls::begin(KernelCall call, Answer answer) {
    {
        const std::lock_guard lock(mutex_);
        if (waiting_.size() < kMaxWaiting) {
            waiting_.push_back({std::move(call), std::move(answer)});
            changed_.notify_all();
            return;
        }
    }
    answer(Error{ErrorCode::overloaded, "too many memory calls wait; try again", {}});
}

void MemoryCalls::work() {
    for (;;) {
        Waiting next;
        {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [this] { return closing_ || !waiting_.empty(); });
            if (closing_) return;
            next = std::move(waiting_.front());
            waiting_.pop_front();
        }
        next.answer(perform(next.call));
        if (next.call.method == "memory.append" || next.call.method == "memory.journal") {
            forget_plan(next.call);
        }
    }
}

Result<json> MemoryCalls::perform(const KernelCall& call) {
    const std::lock_guard lock(files_mutex_);
    auto slug = slug_of(call.workspace);
    if (!slug) return std::move(slug).error();
    const std::string file = MemoryFiles::memory_file(*slug);
    if (call.method == "memory.read") {
        auto content = files_.read(file);
        if (!content) return std::move(content).error();
        return json(std::move(*content));
    }
    if (call.method == "memory.save") {
        const std::string* text = text_of(call.args, "text");
        if (!text) return missing(call, "text");
        auto saved = files_.save(file, *text);
        if (!saved) return std::move(saved).error();
        return json();
    }
    if (call.method == "memory.append") return append_once(call, file);
    if (call.method == "memory.journal") {
        const std::string* date = text_of(call.args, "date");
        if (date && !is_date(*date)) {
            return Error{ErrorCode::invalid, "memory.journal: date must be YYYY-MM-DD", {}};
        }
        const std::string page = MemoryFiles::journal_file(*slug, date ? *date : today());
        if (text_of(call.args, "text")) return append_once(call, page);
        auto content = files_.read(page);
        if (!content) return std::move(content).error();
        return json(std::move(*content));
    }
    if (call.method == "memory.texts") return texts(call.workspace);
    return Error{ErrorCode::unsupported, "unknown method: " + call.method, {}};
}

Result<json> MemoryCalls::append_once(const KernelCall& call, const std::string& file) {
    const std::string* text = text_of(call.args, "text");
    if (!text) return missing(call, "text");
    using Found = std::optional<store::MemoryPlanRow>;
    auto known = database_.call<Found>(
        [run = call.run_id, number = call.call](store::Connection& connection) {
            return store::find_plan(connection, run, number);
        },
        Monotonic::now() + kStoreDeadline);
    if (!known) return std::move(known).error();
    AppendPlan plan;
    if (*known) {
        plan = {(*known)->file, (*known)->size_before, (*known)->bytes};
    } else {
        auto made = files_.plan(file, *text);
        if (!made) return std::move(made).error();
        plan = std::move(*made);
        auto kept = database_.call<void>(
            [row = store::MemoryPlanRow{call.run_id, call.call, plan.file, plan.size_before,
                                        plan.bytes}](store::Connection& connection) {
                return store::insert_plan(connection, row);
            },
            Monotonic::now() + kStoreDeadline);
        if (!kept) return std::move(kept).error();
    }
    auto applied = files_.apply(plan);
    if (!applied) return std::move(applied).error();
    return json();
}

Result<json> MemoryCalls::texts(const std::string& workspace) {
    auto others = links_.others(workspace);
    if (!others) return std::move(others).error();
    others->insert(others->begin(), workspace);
    json found = json::array();
    for (const std::string& each : *others) {
        auto slug = slug_of(each);
        if (!slug) return std::move(slug).error();
        auto content = files_.read(MemoryFiles::memory_file(*slug));
        if (!content) return std::move(content).error();
        found.push_back({{"workspace", each == workspace ? "" : each},
                         {"name", "memory.md"},
                         {"text", std::move(*content)}});
    }
    if (found.dump(-1, ' ', true, json::error_handler_t::replace).size() > kMaxTextsBytes) {
        return Error{ErrorCode::too_large, "the linked memories are over 7 MiB together", {}};
    }
    return found;
}

Result<std::string> MemoryCalls::slug_of(const std::string& workspace) {
    return database_.call<std::string>(
        [workspace](store::Connection& connection) {
            return store::claim_slug(connection, workspace, workspaces::slug(workspace));
        },
        Monotonic::now() + kStoreDeadline);
}

void MemoryCalls::forget_plan(const KernelCall& call) {
    database_.post(
        [run = call.run_id, number = call.call](store::Connection& connection) {
            return store::delete_plan(connection, run, number);
        },
        [](const Result<void>&) {});
}

Result<std::string> MemoryCalls::read(const std::string& workspace) {
    auto slug = slug_of(workspace);
    if (!slug) return std::move(slug).error();
    const std::lock_guard lock(files_mutex_);
    return files_.read(MemoryFiles::memory_file(*slug));
}

Result<void> MemoryCalls::append(const std::string& workspace, const std::string& text) {
    auto slug = slug_of(workspace);
    if (!slug) return std::move(slug).error();
    const std::lock_guard lock(files_mutex_);
    auto plan = files_.plan(MemoryFiles::memory_file(*slug), text);
    if (!plan) return std::move(plan).error();
    return files_.apply(*plan);
}

}  // namespace memory
