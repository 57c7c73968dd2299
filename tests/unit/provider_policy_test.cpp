// Config, endpoints, retries, instructions and the demo: everything of providers that is pure.
#include <catch2/catch.hpp>
#include <fstream>

#include "api/providers/config.h"
#include "api/providers/demo.h"
#include "api/providers/instructions.h"
#include "api/providers/provider_json.h"
#include "api/providers/python_tool.h"
#include "api/providers/retry.h"
#include "tests/support/temporary_folder.h"

using namespace providers;
using std::chrono::milliseconds;

namespace {

Environment fixed(std::map<std::string, std::string> values) {
    return [values](const char* name) -> std::optional<std::string> {
        auto found = values.find(name);
        return found == values.end() ? std::nullopt : std::optional(found->second);
    };
}

std::string proxy_of(const char* url, std::map<std::string, std::string> environment) {
    auto proxy = choose_proxy(*parse_url(url), fixed(std::move(environment)));
    if (!proxy) return "error";
    if (!*proxy) return "none";
    return (*proxy)->user + ":" + (*proxy)->password + "@" + (*proxy)->host + ":" +
           std::to_string((*proxy)->port);
}

}  // namespace

TEST_CASE("config: what is read") {
    const auto config = parse_config(R"({"active": "a", "theme": 1, "providers": {
        "a": {"baseUrl": "https://x.example/v1/", "model": "m", "apiKeyEnv": "A_KEY", "extra": 1,
              "headers": {"X-Org": "o"}, "timeoutSeconds": 30},
        "b": {"baseUrl": "http://127.0.0.1:1/v1", "model": "n", "protocol": "anthropic"}}})");
    REQUIRE(config.ok());
    CHECK(config->profile("")->name == "a");
    CHECK(config->profile("a")->timeout == std::chrono::seconds(30));
    CHECK(config->profile("b")->protocol == Protocol::anthropic);
    CHECK(config->profile("demo")->protocol == Protocol::demo);
    CHECK(config->warnings == std::vector<std::string>{"providers.a.extra", "theme"});
    CHECK(config->key_variables == std::vector<std::string>{"A_KEY"});
    CHECK(config->profile("zz").error().message.find("a, b, demo") != std::string::npos);
    CHECK(parse_config("{}")->active == "demo");
}

TEST_CASE("config: what is refused names its place and no key") {
    const std::pair<const char*, const char*> rows[] = {
        {"{\n  \"active\": \"a\",\n  oops}", "line 3, column 3"},
        {"", "line 1, column 1"},
        {"[]", "object"},
        {R"({"active": "x"})", "active names \"x\""},
        {R"({"providers": {"a": {"baseUrl": "ftp://x", "model": "m"}}})", "providers.a.baseUrl"},
        {R"({"providers": {"a": {"baseUrl": "http://x"}}})", "providers.a.model"},
        {R"({"providers": {"a": {"protocol": "soap"}}})", "providers.a.protocol"},
        {R"({"providers": {"a": {"apiKey": 5}}})", "providers.a.apiKey"},
        {R"({"providers": {"a": {"timeoutSeconds": 1e999}}})", "out of range"},
        {R"({"providers": {"a": {"baseUrl": "http://x", "model": "m", "apiKey": "s3cret", "apiKeyEnv": "E"}}})",
         "more than one"},
        {R"({"providers": {"a": {"apiKey": "s3cret)", "line 1"}};
    for (const auto& [text, words] : rows) {
        INFO(text);
        const auto config = parse_config(text);
        REQUIRE_FALSE(config.ok());
        CHECK_THAT(config.error().message, Catch::Contains(words));
        CHECK_THAT(config.error().message, !Catch::Contains("s3cret"));
    }
}

TEST_CASE("config: a broken file heals when it is mended") {
    TemporaryFolder folder;
    const auto path = folder.path() / "config.json";
    ConfigFile file(path);
    CHECK(file.read()->active == "demo");
    std::ofstream(path) << "{";
    CHECK_THAT(file.read().error().message, Catch::Contains(path.string()));
    std::ofstream(path) << R"({"providers": {"a": {"baseUrl": "http://x", "model": "m"}}})";
    CHECK(file.read()->active == "a");
    std::filesystem::remove(path);
    CHECK(file.read()->active == "demo");
}

TEST_CASE("keys: from text, variable or file, never told") {
    TemporaryFolder folder;
    Profile profile;
    CHECK(*read_key(profile, fixed({})) == "");
    profile.key_variable = "K";
    CHECK(*read_key(profile, fixed({{"K", " abc\n"}})) == "abc");
    CHECK_FALSE(read_key(profile, fixed({})).ok());
    const auto torn = read_key(profile, fixed({{"K", "qz\r\nxw"}}));
    CHECK_THAT(torn.error().message, !Catch::Contains("qz"));
    profile.key_variable.clear();
    profile.key_file = (folder.path() / "key").string();
    CHECK_FALSE(read_key(profile, fixed({})).ok());
    std::ofstream(profile.key_file) << "filekey\n";
    CHECK(*read_key(profile, fixed({})) == "filekey");
}

TEST_CASE("URLs and proxies") {
    CHECK(parse_url("https://A.example/v1//")->path == "/v1");
    CHECK(parse_url("https://a.example")->port == 443);
    CHECK(parse_url("http://[::1]:8080/x")->host == "::1");
    for (const char* bad : {"", "a.example", "ftp://a", "http://", "http://u:p@a/", "http://a:0/",
                            "http://a:99999", "http://a/x y", "http://a/\r\n", "http://a b/"}) {
        INFO(bad);
        CHECK_FALSE(parse_url(bad).ok());
    }
    CHECK(proxy_of("https://a.example", {}) == "none");
    CHECK(proxy_of("https://a.example", {{"HTTPS_PROXY", "http://u:p%40w@p.example:3128/"}}) ==
          "u:p@w@p.example:3128");
    CHECK(proxy_of("https://a.example", {{"HTTPS_PROXY", "x:1"}, {"https_proxy", "y:2"}}) ==
          ":@y:2");
    CHECK(proxy_of("http://a.example", {{"HTTPS_PROXY", "x:1"}}) == "none");
    CHECK(proxy_of("http://a.example", {{"ALL_PROXY", "x:1"}}) == ":@x:1");
    CHECK(proxy_of("http://127.0.0.1:9", {{"HTTP_PROXY", "x:1"}}) == "none");
    CHECK(proxy_of("https://a.example", {{"HTTPS_PROXY", "socks5://x:1"}}) == "error");
    for (const char* list : {"*", "b, a.example", ".example", "example", "A.EXAMPLE:443"}) {
        INFO(list);
        CHECK(proxy_of("https://a.example", {{"HTTPS_PROXY", "x:1"}, {"NO_PROXY", list}}) ==
              "none");
    }
    for (const char* list : {"xample", "a.example:80", "a.example.org"}) {
        INFO(list);
        CHECK(proxy_of("https://a.example", {{"HTTPS_PROXY", "x:1"}, {"NO_PROXY", list}}) ==
              ":@x:1");
    }
}

TEST_CASE("Retry-After in all its forms") {
    const std::int64_t now = 784111777'000;  // Sun, 06 Nov 1994 08:49:37 GMT
    CHECK(parse_retry_after("3", now) == milliseconds(3000));
    CHECK(parse_retry_after(" 0 ", now) == milliseconds(0));
    CHECK(parse_retry_after("999999", now) == kMaxRetryAfter);
    CHECK(parse_retry_after("99999999999999999999", now) == kMaxRetryAfter);
    CHECK(parse_retry_after("Sun, 06 Nov 1994 08:49:42 GMT", now) == milliseconds(5000));
    CHECK(parse_retry_after("Sun, 06 Nov 1994 08:49:30 GMT", now) == milliseconds(0));
    CHECK(parse_retry_after("Sun, 06 Nov 2094 08:49:30 GMT", now) == kMaxRetryAfter);
    for (const char* bad : {"", "soon", "-3", "3.5", "Sun, 06 Foo 1994 08:49:30 GMT",
                            "Sun, xx Nov 1994 08:49:30 GMT"}) {
        INFO(bad);
        CHECK_FALSE(parse_retry_after(bad, now).has_value());
    }
}

TEST_CASE("which failures are tried again") {
    auto status = [](int code) {
        Failure failure{FailureKind::status, ""};
        failure.status = code;
        return failure;
    };
    for (int code : {429, 502, 503, 504, 529}) CHECK(retry_pause(status(code), 1, 0).has_value());
    for (int code : {400, 401, 403, 404, 413, 500, 501, 301})
        CHECK_FALSE(retry_pause(status(code), 1, 0).has_value());
    const Failure cut{FailureKind::transport, ""};
    CHECK(retry_pause(cut, 1, 0) == milliseconds(1000));
    CHECK(retry_pause(cut, 3, 0) == milliseconds(4000));
    CHECK(retry_pause(cut, 3, 0.5) == milliseconds(3000));
    CHECK_FALSE(retry_pause(cut, kMaxAttempts, 0).has_value());
    Failure told = status(429);
    told.retry_after = milliseconds(7000);
    CHECK(retry_pause(told, 1, 0) == milliseconds(7000));
    told.retry_after = std::chrono::hours(100);
    CHECK(retry_pause(told, 1, 0) == kMaxRetryAfter);
    Failure shown = cut;
    shown.output_started = true;
    CHECK_FALSE(retry_pause(shown, 1, 0).has_value());
    for (auto kind : {FailureKind::cancelled, FailureKind::config, FailureKind::protocol})
        CHECK_FALSE(retry_pause(Failure{kind, ""}, 1, 0).has_value());
}

TEST_CASE("instructions say where cells run and what is gone") {
    InstructionParts parts;
    parts.folder = "/srv/a";
    CHECK_THAT(instructions(parts), !Catch::Contains("execute on"));
    CHECK_THAT(instructions(parts), !Catch::Contains("its folder is gone"));
    parts.remote = RemotePlace{"box", "Linux", "x86_64", "/home/u"};
    parts.gone_links = {"box:/tmp/w"};
    parts.project_instructions = {std::string(200'000, 'x'), "never seen"};
    parts.skills = {{"deploy", "Ships it", ".agents/skills/deploy/SKILL.md"}};
    parts.notes = {"The kernel carried on."};
    const auto text = instructions(parts);
    CHECK_THAT(text, Catch::Contains("execute on box (Linux x86_64)"));
    CHECK_THAT(text, Catch::Contains("box:/tmp/w (its folder is gone)"));
    CHECK_THAT(text, Catch::Contains("Ships it") && Catch::Contains("The kernel carried on."));
    CHECK(text.size() < 80'000);
}

TEST_CASE("the demo drives real cells to an end") {
    struct Nothing : EventSink {
        void on_event(const ModelEvent&) override {}
    } sink;
    CancelToken cancel;
    ModelRequest request;
    request.items = {UserItem{"hello"}};
    int cells = 0;
    for (;; ++cells) {
        auto outcome = DemoProvider().run(request, sink, cancel);
        const auto& answer = std::get<Completion>(outcome);
        if (answer.calls.empty()) break;
        REQUIRE(cells < 10);
        REQUIRE(parse_python_call("python", answer.calls[0].arguments).ok());
        request.items.push_back(ToolCallItem{"c", "python", answer.calls[0].arguments});
        request.items.push_back(ToolResultItem{"c", R"({"status":"ok","value":"7","output":""})"});
    }
    CHECK(cells == 3);
    // A cell that failed ends it.
    request.items.resize(2);
    request.items.push_back(ToolResultItem{"c", R"({"status":"error","output":"no space"})"});
    const auto outcome = DemoProvider().run(request, sink, cancel);
    CHECK(std::get<Completion>(outcome).calls.empty());
    CHECK_THAT(std::get<Completion>(outcome).text, Catch::Contains("no space"));
    cancel.cancel();
    CHECK(std::holds_alternative<Failure>(DemoProvider().run(request, sink, cancel)));
}
