// Table `hosts`: what each host last reported; sent to its next agent as a hint. Store thread only.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "api/store/database.h"
#include "shared/messages.h"
#include "shared/result.h"

namespace store {

std::string hosts_schema();
shared::Result<void> save_host(Connection& connection, const std::string& host,
                               const shared::HostReport& report);
shared::Result<std::vector<std::pair<std::string, shared::HostReport>>> all_hosts(
    Connection& connection);

}  // namespace store
