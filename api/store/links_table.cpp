#include "api/store/links_table.h"

#include <optional>

namespace store {
namespace {

using shared::Result;

Result<std::optional<std::int64_t>> group_of(Connection& connection, const std::string& workspace) {
    std::optional<std::int64_t> group;
    auto asked = connection.query("SELECT project FROM links WHERE workspace = ?", {workspace},
                                  [&](const Row& row) { group = row.integer(0); });
    if (!asked) return std::move(asked).error();
    return group;
}

/// The group of `workspace`, made if it is in none.
Result<std::int64_t> join(Connection& connection, const std::string& workspace,
                          std::optional<std::int64_t> project) {
    auto added = connection.run(
        "INSERT INTO links (workspace, project) VALUES (?, coalesce(?,"
        " (SELECT coalesce(max(project), 0) + 1 FROM links)))",
        {workspace, project});
    if (!added) return std::move(added).error();
    auto group = group_of(connection, workspace);
    if (!group) return std::move(group).error();
    return **group;
}

}  // namespace

std::string links_schema() {
    return "CREATE TABLE links (position INTEGER PRIMARY KEY AUTOINCREMENT,"
           " workspace TEXT NOT NULL UNIQUE, project INTEGER NOT NULL);"
           "CREATE INDEX links_by_project ON links (project);";
}

Result<std::vector<std::string>> linked_workspaces(Connection& connection,
                                                   const std::string& workspace) {
    std::vector<std::string> others;
    auto asked = connection.query(
        "SELECT other.workspace FROM links AS own JOIN links AS other USING (project)"
        " WHERE own.workspace = ?1 AND other.workspace <> ?1 ORDER BY other.position",
        {workspace}, [&](const Row& row) { others.push_back(row.text(0)); });
    if (!asked) return std::move(asked).error();
    return others;
}

Result<bool> link_workspaces(Connection& connection, const std::string& workspace,
                             const std::string& other) {
    auto own = group_of(connection, workspace);
    if (!own) return std::move(own).error();
    auto theirs = group_of(connection, other);
    if (!theirs) return std::move(theirs).error();
    if (*own && *own == *theirs) return false;
    if (!*own) {
        auto joined = join(connection, workspace, *theirs);
        if (!joined) return std::move(joined).error();
        own = std::optional<std::int64_t>(*joined);
        if (*theirs) return true;
    }
    if (!*theirs) {
        auto joined = join(connection, other, **own);
        if (!joined) return std::move(joined).error();
        return true;
    }
    auto merged =
        connection.run("UPDATE links SET project = ? WHERE project = ?", {**own, **theirs});
    if (!merged) return std::move(merged).error();
    return true;
}

Result<bool> unlink_workspace(Connection& connection, const std::string& workspace) {
    auto removed = connection.run("DELETE FROM links WHERE workspace = ?", {workspace});
    if (!removed) return std::move(removed).error();
    auto alone = connection.run(
        "DELETE FROM links WHERE project IN"
        " (SELECT project FROM links GROUP BY project HAVING count(*) = 1)");
    if (!alone) return std::move(alone).error();
    return *removed > 0;
}

}  // namespace store
