// Table `kernel_calls`: what kernels asked of the daemon, each once, until the kernel acknowledged
// the answer. Store thread only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/store/database.h"
#include "shared/result.h"

namespace store {

struct KernelCallRow {
    std::string run_id;
    std::uint64_t call = 0;
    std::string method;
    std::string args;    // JSON
    std::string answer;  // JSON {ok, value?, error?}; empty while open
};

std::string kernel_calls_schema();
shared::Result<void> insert_call(Connection& connection, const KernelCallRow& row);
shared::Result<void> answer_call(Connection& connection, const std::string& run_id,
                                 std::uint64_t call, const std::string& answer);
shared::Result<void> delete_call(Connection& connection, const std::string& run_id,
                                 std::uint64_t call);
/// Open and unacknowledged ones, in order.
shared::Result<std::vector<KernelCallRow>> all_calls(Connection& connection);

}  // namespace store
