#include "api/store/hosts_table.h"

#include <optional>

namespace store {

using shared::HostState;
using shared::Result;

namespace {
std::optional<HostState> state_of(const std::string& text) {
    for (const auto state : {HostState::unknown, HostState::ready, HostState::needs_auth,
                             HostState::unreachable, HostState::unsupported})
        if (text == shared::to_string(state)) return state;
    return std::nullopt;
}
}  // namespace

std::string hosts_schema() {
    return "CREATE TABLE hosts (host TEXT PRIMARY KEY, state TEXT NOT NULL, detail TEXT NOT NULL,"
           " os TEXT NOT NULL, arch TEXT NOT NULL, home TEXT NOT NULL, hostname TEXT NOT NULL,"
           " user TEXT NOT NULL, python TEXT NOT NULL, python_version TEXT NOT NULL,"
           " digest TEXT NOT NULL, control_path TEXT NOT NULL, checked_ms INTEGER NOT NULL)"
           " WITHOUT ROWID;";
}

Result<void> save_host(Connection& connection, const std::string& host,
                       const shared::HostReport& report) {
    auto saved = connection.run(
        "INSERT OR REPLACE INTO hosts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        {host, shared::to_string(report.state), report.detail, report.os, report.arch, report.home,
         report.hostname, report.user, report.python, report.python_version, report.digest,
         report.control_path, report.checked_wall_ms});
    if (!saved) return std::move(saved).error();
    return {};
}

Result<std::vector<std::pair<std::string, shared::HostReport>>> all_hosts(Connection& connection) {
    std::vector<std::pair<std::string, shared::HostReport>> hosts;
    auto read = connection.query(
        "SELECT host, state, detail, os, arch, home, hostname, user, python, python_version, "
        "digest,"
        " control_path, checked_ms FROM hosts",
        {}, [&](const Row& row) {
            shared::HostReport report;
            report.state = state_of(row.text(1)).value_or(HostState::unknown);
            report.detail = row.text(2);
            report.os = row.text(3);
            report.arch = row.text(4);
            report.home = row.text(5);
            report.hostname = row.text(6);
            report.user = row.text(7);
            report.python = row.text(8);
            report.python_version = row.text(9);
            report.digest = row.text(10);
            report.control_path = row.text(11);
            report.checked_wall_ms = row.integer(12);
            hosts.emplace_back(row.text(0), std::move(report));
        });
    if (!read) return std::move(read).error();
    return hosts;
}

}  // namespace store
