// Table `links`: which workspaces hold the same project. A group is a set of workspaces; each is in
// one group at most, in the order of adding. Store thread only.
#pragma once

#include <string>
#include <vector>

#include "api/store/database.h"
#include "shared/result.h"

namespace store {

std::string links_schema();
/// The group of `workspace` without itself, in order of adding; empty when it is in none.
shared::Result<std::vector<std::string>> linked_workspaces(Connection& connection,
                                                           const std::string& workspace);
/// Puts both into one group, merging theirs. False when they were in one already.
shared::Result<bool> link_workspaces(Connection& connection, const std::string& workspace,
                                     const std::string& other);
/// Takes one out of its group; a group of one ends. False when it was in none.
shared::Result<bool> unlink_workspace(Connection& connection, const std::string& workspace);

}  // namespace store
