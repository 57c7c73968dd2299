// Tables `kernels` (the kernel on record of each session, made before its first start) and
// `endings` (kernels that are to be ended on their hosts and were not yet). Store thread only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/store/database.h"
#include "shared/ids.h"
#include "shared/result.h"

namespace store {

struct KernelRow {
    shared::SessionId session;
    std::string run_id;  // 12 hex; names the run directory
    std::string token;
    std::string host;
    std::string folder;
    std::string run;         // the run directory, absolute on the host; empty until first opened
    bool confirmed = false;  // attached once, so never to be started again
    std::uint64_t received = 0;  // highest control frame whose effect is kept
};

struct EndingRow {
    std::string run_id;
    std::string host;
    std::string run;
};

std::string kernels_schema();
shared::Result<void> insert_kernel(Connection& connection, const KernelRow& row);
shared::Result<void> confirm_kernel(Connection& connection, const std::string& run_id,
                                    const std::string& run);
/// In the transaction of the frame's effect. Errors: conflict when the frame `before` was not kept.
shared::Result<void> receive_frame(Connection& connection, const std::string& run_id,
                                   std::uint64_t before, std::uint64_t seq);
/// The kernel is gone, its open calls with it.
shared::Result<void> delete_kernel(Connection& connection, const std::string& run_id);
shared::Result<std::vector<KernelRow>> all_kernels(Connection& connection);

shared::Result<void> insert_ending(Connection& connection, const EndingRow& row);
shared::Result<void> delete_ending(Connection& connection, const std::string& run_id);
shared::Result<std::vector<EndingRow>> all_endings(Connection& connection);

}  // namespace store
