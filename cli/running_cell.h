// From what a person types to a cell: its own id, or a session whose newest running cell is meant.
#pragma once

#include <string>

#include "cli/client.h"
#include "cli/follow.h"
#include "shared/result.h"

namespace cli {

/// Errors: not_found, in words that say where to look.
shared::Result<Cell> find_cell(Client& client, const std::string& target);

}  // namespace cli
