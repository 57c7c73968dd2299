// Tables `memory_slugs` (which workspace owns which folder of memories) and `memory_plans` (appends
// that are under way, so that each is applied once over crashes). Store thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "api/store/database.h"
#include "shared/result.h"

namespace store {

struct MemoryPlanRow {
    std::string run_id;  // with `call`, the kernel call that asked
    std::uint64_t call = 0;
    std::string file;  // relative to the memories folder
    std::uint64_t size_before = 0;
    std::string bytes;
};

std::string memory_schema();
/// The workspace's slug: `wanted` if nobody has it, else `wanted` with -<8 hex>; the same for ever.
shared::Result<std::string> claim_slug(Connection& connection, const std::string& workspace,
                                       const std::string& wanted);
shared::Result<void> insert_plan(Connection& connection, const MemoryPlanRow& row);
shared::Result<std::optional<MemoryPlanRow>> find_plan(Connection& connection,
                                                       const std::string& run_id,
                                                       std::uint64_t call);
shared::Result<void> delete_plan(Connection& connection, const std::string& run_id,
                                 std::uint64_t call);
/// Plans whose call is answered or forgotten: a crash came between the answer and delete_plan().
shared::Result<void> delete_old_plans(Connection& connection);

}  // namespace store
