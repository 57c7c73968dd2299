// Table `mirrors`: the project files of workspaces as last read from their hosts, so that they are
// known while a host is away. Store thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "api/store/database.h"
#include "shared/result.h"

namespace store {

struct MirrorRow {
    std::string workspace;
    std::string files;  // JSON as albedo_gather.py answers it
    std::int64_t read_ms = 0;
};

std::string mirrors_schema();
shared::Result<void> save_mirror(Connection& connection, const MirrorRow& row);
shared::Result<std::optional<MirrorRow>> find_mirror(Connection& connection,
                                                     const std::string& workspace);

}  // namespace store
