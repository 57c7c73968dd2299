// ssh's own words: config files, the answer of `ssh -G`, and stderr.
#include <string>
#include <string_view>

#include "api/workspaces/ssh_hosts.h"
#include "hostagent/ssh_config.h"
#include "hostagent/ssh_failure.h"
#include "shared/result.h"
#include "tests/fuzz/targets.h"

namespace {

void config_file(std::string_view bytes) {
    const auto parsed = workspaces::parse_ssh_config(bytes);
    int last = 0;
    for (const auto& line : parsed.lines) {
        ALBEDO_CHECK(line.number > last);
        last = line.number;
        ALBEDO_CHECK(!line.keyword.empty());
        for (const char c : line.keyword) ALBEDO_CHECK(c < 'A' || c > 'Z');
    }
    for (const auto& problem : parsed.problems) ALBEDO_CHECK(problem.line > 0 || bytes.empty());
}

void answer_of_ssh_g(std::string_view bytes) {
    const auto config = hostagent::parse_ssh_config(bytes);
    ALBEDO_CHECK(config.control_path.find('\n') == std::string::npos);
    ALBEDO_CHECK(config.control_persist != "no");
    if (hostagent::is_usable_control_path(config.control_path))
        ALBEDO_CHECK(config.control_path.size() <= hostagent::kMaxControlPathBytes);
}

void check_printable(const std::string& text) {
    for (const char c : text) ALBEDO_CHECK(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
    ALBEDO_CHECK(hostagent::printable(text) == text);
}

void words(std::string_view bytes) {
    check_printable(hostagent::printable(bytes));
    const std::string last = hostagent::last_words(bytes);
    ALBEDO_CHECK(last.size() <= hostagent::kMaxDetailBytes);
    check_printable(last);
    const auto verdict = hostagent::ssh_failure(bytes);
    ALBEDO_CHECK(verdict.state == shared::HostState::needs_auth ||
                 verdict.state == shared::HostState::unreachable);
    ALBEDO_CHECK(!verdict.detail.empty());
    ALBEDO_CHECK(verdict.detail.size() <= 3 * hostagent::kMaxDetailBytes);
    check_printable(verdict.detail);
    (void)hostagent::is_turned_away(bytes);
    (void)hostagent::is_session_refused(bytes);
}

}  // namespace

void fuzz::ssh(std::string_view bytes) {
    switch (choice(bytes, 3)) {
        case 0:
            return config_file(bytes);
        case 1:
            return answer_of_ssh_g(bytes);
        default:
            return words(bytes);
    }
}
