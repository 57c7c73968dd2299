// Links between workspaces that hold the same project, and what their hosts say of them now.
// Links belong to workspaces, not to sessions. Blocks on the store and on hosts; for HTTP threads.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/store/database.h"
#include "api/workspaces/folders.h"
#include "shared/result.h"

namespace workspaces {

/// A linked workspace as its host sees it now.
struct LinkedFolder {
    std::string workspace;
    Presence presence;
};

class Links {
  public:
    Links(store::Database& database, Folders& folders) : database_(database), folders_(folders) {}

    /// The others of the group, in order of adding. Errors: storage.
    shared::Result<std::vector<std::string>> others(const std::string& workspace);
    /// What was done, as a sentence. `other` is what a person wrote: it may be out of reach or not
    /// there. Errors: invalid (no location, the workspace itself, `~` on another host), storage.
    shared::Result<std::string> add(const std::string& workspace, const std::string& other);
    shared::Result<std::string> remove(const std::string& workspace, const std::string& other);

    /// Every linked folder, asked anew, all hosts side by side. Errors: storage.
    shared::Result<std::vector<LinkedFolder>> check(const std::string& workspace,
                                                    shared::TimePoint deadline);
    /// The page of `/link`: {"rows": [{"id", "badge", "detail"}]}, the workspace itself first.
    shared::Result<nlohmann::json> page(const std::string& workspace);

  private:
    store::Database& database_;
    Folders& folders_;
};

/// "", "gone", "unreachable", "sign in" or "connecting".
const char* badge_of(Presence::Kind kind);

}  // namespace workspaces
