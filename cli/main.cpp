#include <signal.h>

#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "cli/exit_codes.h"
#include "cli/terminal.h"

namespace {

void print_error(const shared::Error& error, bool json) {
    if (json) {
        const nlohmann::json object{{"error", error.message},
                                    {"code", shared::to_string(error.code)},
                                    {"host", error.host}};
        std::fprintf(stderr, "%s\n",
                     object.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).c_str());
        return;
    }
    const bool named = error.host.empty() || error.message.find(error.host) != std::string::npos;
    std::fprintf(stderr, "albedo: %s%s\n", named ? "" : (cli::visible(error.host) + ": ").c_str(),
                 cli::visible(error.message, cli::Lines::keep).c_str());
    const char* next = error.code == shared::ErrorCode::needs_auth    ? "login"
                       : error.code == shared::ErrorCode::unreachable ? "why"
                       : error.code == shared::ErrorCode::unsupported ? "why"
                                                                      : nullptr;
    if (next && !error.host.empty()) {
        std::fprintf(stderr, "next: albedo hosts %s %s\n", next, cli::visible(error.host).c_str());
    }
}

}  // namespace

int main(int argc, char** argv) {
    signal(SIGPIPE, SIG_IGN);  // a daemon that died, a reader that left: both are told by the write
    bool json = false;
    try {
        const auto ended = cli::run_command_line(argc, argv, json);
        if (ended) return *ended;
        print_error(ended.error(), json);
        return cli::exit_code(ended.error());
    } catch (const std::exception& fault) {
        print_error({shared::ErrorCode::failed, fault.what(), ""}, json);
        return cli::kFailed;
    }
}
