// What cells ask through `memory`, done on the daemon's machine.
//
// The story of an append, which is applied once whatever is killed meanwhile:
//  1. begin() is told of a call that is in the store, and hands it to this object's own thread.
//  2. The plan (file, size before, bytes) goes into the store.
//  3. The bytes are appended and synced.
//  4. The answer is given, which stores it; after that the plan is removed.
// After a crash begin() is told again: a plan on record is applied again, which looks first whether
// its bytes are there; without one the call starts anew. A save replaces the file whole, so doing
// it twice is doing it once.
//
// Calls are done one after another, so nobody's append falls between another's plan and its bytes.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "api/memory/memory_files.h"
#include "api/sessions/kernel_calls.h"
#include "api/store/database.h"
#include "api/workspaces/links.h"

namespace memory {

class MemoryCalls : public sessions::KernelCalls {
  public:
    MemoryCalls(store::Database& database, workspaces::Links& links, MemoryFiles files);
    ~MemoryCalls() override { stop(); }

    /// Finishes the call under way; those that wait are told again after a restart. To be called
    /// while those who wait for answers are still there.
    void stop();

    void begin(sessions::KernelCall call, Answer answer) override;

    /// The whole memory.md of a workspace, for people and for a session's opening. Blocks.
    shared::Result<std::string> read(const std::string& workspace);
    shared::Result<void> append(const std::string& workspace, const std::string& text);

  private:
    struct Waiting {
        sessions::KernelCall call;
        Answer answer;
    };
    void work();
    shared::Result<nlohmann::json> perform(const sessions::KernelCall& call);
    shared::Result<nlohmann::json> append_once(const sessions::KernelCall& call,
                                               const std::string& file);
    shared::Result<nlohmann::json> texts(const std::string& workspace);
    shared::Result<std::string> slug_of(const std::string& workspace);
    void forget_plan(const sessions::KernelCall& call);

    store::Database& database_;
    workspaces::Links& links_;
    MemoryFiles files_;
    std::mutex files_mutex_;  // one change at a time, of cells and of people
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Waiting> waiting_;
    bool closing_ = false;
    std::thread thread_;
};

}  // namespace memory
