// What the agent says to shells and ssh, and what it reads from them: pure, by tables.
#include <catch2/catch.hpp>

#include "hostagent/command_line.h"
#include "hostagent/marker.h"
#include "hostagent/probe.h"
#include "hostagent/ssh_command.h"
#include "hostagent/ssh_config.h"
#include "hostagent/ssh_failure.h"
#include "hostagent/stager.h"

using namespace hostagent;
using shared::HostState;

TEST_CASE("words are quoted alike for every shell, or not at all") {
    CHECK(*quote_word("/usr/bin/python3") == "/usr/bin/python3");
    CHECK(*quote_word("/home/a b/x") == "'/home/a b/x'");
    CHECK(*quote_word("import sys;exec(a[0])") == "'import sys;exec(a[0])'");
    CHECK(*quote_word("exec x 'a b'") == "\"exec x 'a b'\"");
    for (const char* bad : {"", "a\nb", "a!'b", "a\\b'", "caf\xc3\xa9", "'$HOME'", "a'b\"c"})
        CHECK_FALSE(quote_word(bad).has_value());
}

TEST_CASE("every command line is one plain line") {
    const std::string marker = "albedo-0123456789abcdef";
    for (const auto& words :
         {loader("python3", marker), loader("/opt/my python/bin/python3", marker, {"a.part.b"}),
          login_loader(marker),
          script("/usr/bin/python3", "/home/u", "/home/u/.albedo-remote/d", "b.py", {"n"}),
          script("/usr/bin/python3", "/home/\xc3\xbc", "/home/\xc3\xbc/.albedo-remote/d", "b.py",
                 {"n"}),
          marked_script("/usr/bin/python3", "/home/o'x!", "/home/o'x!/.albedo-remote/d", "s.py",
                        marker)}) {
        const std::string line = command_line(words);
        CHECK(line.rfind("exec ", 0) == 0);
        CHECK(line.find_first_of("\n!\\`") == std::string::npos);
        for (const char c : line) CHECK((c >= ' ' && c <= '~'));
    }
}

TEST_CASE("ssh's options are -o words, then the target, then one command") {
    SshOptions options;
    options.host = "me@[fe80::1]";
    options.control_path = "/run/x/%C";
    for (const auto ride : {Ride::master, Ride::only, Ride::alone}) {
        options.ride = ride;
        const auto argv = ssh_argv(options, "exec true");
        REQUIRE(argv.size() > 4);
        CHECK(argv[argv.size() - 1] == "exec true");
        CHECK(argv[argv.size() - 2] == "me@fe80::1");
        CHECK(argv[argv.size() - 3] == "--");
        for (std::size_t i = 1; i + 3 < argv.size(); i += 2) {
            CHECK(argv[i] == "-o");
            CHECK(argv[i + 1].find('=') != std::string::npos);
        }
    }
}

TEST_CASE("ssh's words become a verdict") {
    struct Row {
        const char* words;
        HostState state;
        const char* detail;
    };
    const Row rows[] = {
        {"ssh: connect to host x port 22: Connection refused\n", HostState::unreachable,
         "ssh: connect to host x port 22: Connection refused"},
        {"x: Permission denied (publickey).\r\n", HostState::needs_auth,
         "x: Permission denied (publickey)."},
        {"Warning: Permanently added 'x' (ED25519) to the list of known hosts.\nu@x: Permission "
         "denied "
         "(publickey,password).\n",
         HostState::needs_auth, "u@x: Permission denied (publickey,password)."},
        {"** WARNING: connection is not using a post-quantum key exchange\n",
         HostState::unreachable, "ssh failed without a word"},
        {"No ED25519 host key is known for x.\nHost key verification failed.\n",
         HostState::needs_auth, "Host key verification failed."},
        {"@@@@\n@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nOffending ED25519 key in "
         "/h/known_hosts:3\nHost key verification failed.\n",
         HostState::needs_auth,
         "host key changed. Offending ED25519 key in /h/known_hosts:3. Host key verification "
         "failed."},
        {"Received disconnect from 1.2.3.4: 2: Too many authentication failures\n",
         HostState::needs_auth,
         "Received disconnect from 1.2.3.4: 2: Too many authentication failures"},
        {"banner \xe9t\xe9\nssh: Could not resolve hostname nope: Name or service not known\n",
         HostState::unreachable, "ssh: Could not resolve hostname nope: Name or service not known"},
        {"Bad owner or permissions on /h/.ssh/config\n", HostState::unreachable,
         "Bad owner or permissions on /h/.ssh/config"},
        {"", HostState::unreachable, "ssh failed without a word"},
    };
    for (const auto& row : rows) {
        const Verdict verdict = ssh_failure(row.words);
        CHECK(verdict.state == row.state);
        CHECK(verdict.detail == row.detail);
    }
    CHECK(last_words(std::string(100'000, 'x')).size() == kMaxDetailBytes);
    CHECK(printable("a\x1b[31m\xff\xc3\xa9\t\n") == "a?[31m?\xc3\xa9  ");
    CHECK(is_ssh_failure({false, 255}));
    CHECK_FALSE(is_ssh_failure({true, 9}));
    CHECK_FALSE(is_ssh_failure({false, 127}));
}

TEST_CASE("what ssh -G says") {
    const auto none =
        parse_ssh_config("user u\ncontrolpath none\nserveraliveinterval 300\ncontrolpersist no\n");
    CHECK(none.control_path.empty());
    CHECK(none.control_persist.empty());
    CHECK_FALSE(none.has_keep_alives);
    const auto own = parse_ssh_config(
        "controlpath /h/.ssh/cm-abc\nserveraliveinterval 15\ncontrolpersist yes\n");
    CHECK(own.control_path == "/h/.ssh/cm-abc");
    CHECK(own.control_persist == "yes");
    CHECK(own.has_keep_alives);
    CHECK(parse_ssh_config("").control_path.empty());
    CHECK(is_usable_control_path("/h/x"));
    CHECK_FALSE(is_usable_control_path("/" + std::string(90, 'x')));
    CHECK_FALSE(is_usable_control_path("cm"));
}

TEST_CASE("the marker is found whatever stands before it, in pieces of any size") {
    const std::string noise = std::string(5000, 'n') + "\nalbedo-other\n\x01\x1b[2J";
    const std::string stream = noise + "\nM\n" + "rest";
    for (const std::size_t size : {1u, 2u, 3u, 7u, 4096u, 100'000u}) {
        MarkerScanner scanner("M");
        std::string after;
        bool found = false;
        for (std::size_t at = 0; at < stream.size(); at += size) {
            const std::string piece = stream.substr(at, size);
            if (found) {
                after += piece;
                continue;
            }
            if (const auto rest = scanner.feed(piece)) {
                found = true;
                after = *rest;
            }
        }
        CHECK(found);
        CHECK(after == "rest");
        CHECK(scanner.noise().size() <= MarkerScanner::kNoiseBytes + size);
    }
}

TEST_CASE("what a probe answers") {
    const auto fine = read_probe(
        R"({"os":"Linux","arch":"x86_64","home":"/h","python":"/p","python_version":"3.11.2","fit":true,"staged":true})");
    REQUIRE(std::holds_alternative<Probed>(fine));
    CHECK(std::get<Probed>(fine).staged);
    CHECK(std::get<Probed>(fine).facts.home == "/h");
    const auto old = read_probe(
        R"({"home":"/h","python":"/p","python_version":"3.8.1","fit":false,"others":["/q/python3.12"]})");
    REQUIRE(std::holds_alternative<Verdict>(old));
    CHECK(std::get<Verdict>(old).state == HostState::unsupported);
    CHECK_THAT(std::get<Verdict>(old).detail, Catch::Contains("python >= 3.11") &&
                                                  Catch::Contains("/p is 3.8.1") &&
                                                  Catch::Contains("/q/python3.12"));
    for (const char* broken :
         {"", "[]", "{", "3.9", R"({"fit":1})", R"({"fit":true,"home":"x","python":"/p"})"})
        CHECK(std::get<Verdict>(read_probe(broken)).state == HostState::unsupported);
    CHECK_THAT(no_python("3.9\n", "").detail, Catch::Contains("instead of an answer came: 3.9"));
}

TEST_CASE("what a staging answers") {
    CHECK(read_staged("{\"ok\": true}\n", "").ok());
    const auto full = read_staged(R"({"ok": false, "error": "No space left on device: /h"})", "");
    REQUIRE_FALSE(full.ok());
    CHECK(full.error().code == shared::ErrorCode::unsupported);
    CHECK_THAT(full.error().message, Catch::Contains("No space left on device: /h"));
    CHECK_FALSE(read_staged("", "python3: not found").ok());
    const StagePlan plan{"/r", "/r/run", "0123456789abcdef"};
    CHECK_THAT(part_name(plan), Catch::StartsWith("0123456789abcdef.part."));
    CHECK(part_name(plan) != part_name(plan));
}
