// Real requests over a socket to tests/support/fake_provider.py: each protocol, and each way in
// which a provider lets a request down.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <thread>

#include "api/providers/http_client.h"
#include "api/providers/provider.h"
#include "api/providers/provider_json.h"
#include "api/providers/python_tool.h"
#include "shared/child_process.h"

using namespace providers;
using namespace std::chrono_literals;

namespace {

constexpr const char* kKey = "key-that-must-not-show";

class Fake {
  public:
    Fake() : child_(start()) {
        std::string line;
        char byte = 0;
        pollfd wait{out_.get(), POLLIN, 0};
        while (poll(&wait, 1, 20'000) == 1 && read(out_.get(), &byte, 1) == 1 && byte != '\n')
            line += byte;
        REQUIRE_FALSE(line.empty());
        base_ = "http://127.0.0.1:" + line;
    }
    ~Fake() {
        in_.reset();  // its end of input is its end
        child_.end({5000ms, 0ms, 2000ms});
    }
    void script(const std::string& steps) {
        HttpRequest request;
        request.url = *parse_url(base_ + "/script");
        request.body = steps;
        CancelToken never;
        const auto answer = post(
            request, [](std::string_view) { return true; }, never);
        REQUIRE(answer.status == 200);
    }
    Profile profile(Protocol protocol) const {
        Profile profile;
        profile.name = "fake";
        profile.protocol = protocol;
        profile.base_url = base_ + "/v1";
        profile.model = "m";
        profile.key = kKey;
        return profile;
    }

  private:
    shared::ChildProcess start() {
        int in[2];
        int out[2];
        REQUIRE(pipe2(in, O_CLOEXEC) == 0);
        REQUIRE(pipe2(out, O_CLOEXEC) == 0);
        const shared::UniqueFd child_in(in[0]);
        const shared::UniqueFd child_out(out[1]);
        in_.reset(in[1]);
        out_.reset(out[0]);
        shared::SpawnOptions options;
        options.argv = {"/usr/bin/python3", ALBEDO_FAKE_PROVIDER};
        options.descriptors = {{child_in.get(), 0}, {child_out.get(), 1}, {2, 2}};
        auto child = shared::ChildProcess::spawn(options);
        REQUIRE(child.ok());
        return std::move(*child);
    }
    shared::UniqueFd in_;
    shared::UniqueFd out_;
    shared::ChildProcess child_;
    std::string base_;
};

struct Heard : EventSink {
    void on_event(const ModelEvent& event) override {
        if (auto* delta = std::get_if<TextDelta>(&event)) text += delta->text;
        if (on_first) on_first();
    }
    std::string text;
    std::function<void()> on_first;
};

ModelRequest request() {
    ModelRequest request;
    request.model = "m";
    request.instructions = "i";
    request.tools = {python_tool()};
    request.items = {UserItem{"hi"}};
    return request;
}

Outcome ask(const Profile& profile, Heard& heard, CancelToken& cancel,
            const ModelRequest& what = request()) {
    auto provider = make_provider(profile, [](const char*) { return std::nullopt; });
    REQUIRE(provider.ok());
    return (*provider)->run(what, heard, cancel);
}

Failure failure_of(const Outcome& outcome) {
    REQUIRE(std::holds_alternative<Failure>(outcome));
    const auto failure = std::get<Failure>(outcome);
    CHECK_THAT(failure.message, !Catch::Contains(kKey));
    return failure;
}

constexpr Protocol kProtocols[] = {Protocol::responses, Protocol::chat_completions,
                                   Protocol::anthropic};

}  // namespace

TEST_CASE("each protocol: a call, its result, and the end") {
    Fake fake;
    for (auto protocol : kProtocols) {
        INFO(to_string(protocol));
        fake.script(
            R"([{"text": "look", "calls": [["call-1", {"code": "1"}], ["call-2", {"code": "2"}]]},
                        {"text": "done"}])");
        CancelToken cancel;
        Heard heard;
        auto outcome = ask(fake.profile(protocol), heard, cancel);
        REQUIRE(std::holds_alternative<Completion>(outcome));
        const auto& first = std::get<Completion>(outcome);
        CHECK(heard.text == "look");
        REQUIRE(first.calls.size() == 2);
        CHECK(first.calls[0].call_id == "call-1");
        CHECK(parse_python_call(first.calls[1].name, first.calls[1].arguments)->code == "2");
        CHECK(first.usage.output_tokens == 5);

        auto next = request();
        next.items.push_back(AssistantItem{"look"});
        for (const auto& call : first.calls)
            next.items.push_back(ToolCallItem{call.call_id, call.name, call.arguments});
        for (const auto& call : first.calls)
            next.items.push_back(ToolResultItem{call.call_id, R"({"status":"ok"})"});
        outcome = ask(fake.profile(protocol), heard, cancel, next);
        REQUIRE(std::holds_alternative<Completion>(outcome));
        CHECK(std::get<Completion>(outcome).text == "done");

        next.items.pop_back();  // the strict server notices
        CHECK(failure_of(ask(fake.profile(protocol), heard, cancel, next)).status == 400);
    }
}

TEST_CASE("refusals, cuts and silence are told apart") {
    Fake fake;
    CancelToken cancel;
    Heard heard;
    auto profile = fake.profile(Protocol::responses);
    fake.script(R"([{"status": 429, "retry_after": "3", "body": {"error": {"message": "slow"}}},
                    {"status": 401, "body": {"error": {"message": "bad key key-that-must-not-show"}}},
                    {"text": "abcdefgh", "cut": 0},
                    {"text": "abcdefghijklmnop", "cut": 400},
                    {"text": "x", "stall": 0}])");
    auto failure = failure_of(ask(profile, heard, cancel));
    CHECK(failure.kind == FailureKind::status);
    CHECK(failure.status == 429);
    CHECK(failure.retry_after == 3000ms);
    CHECK_THAT(failure.message, Catch::Contains("slow"));

    CHECK(failure_of(ask(profile, heard, cancel)).status == 401);

    failure = failure_of(ask(profile, heard, cancel));
    CHECK(failure.kind == FailureKind::transport);
    CHECK_FALSE(failure.output_started);

    failure = failure_of(ask(profile, heard, cancel));
    CHECK(failure.kind == FailureKind::transport);
    CHECK(failure.output_started);

    profile.timeout = 1s;
    CHECK(failure_of(ask(profile, heard, cancel)).kind == FailureKind::transport);

    profile.base_url = "http://127.0.0.1:1/v1";
    CHECK(failure_of(ask(profile, heard, cancel)).kind == FailureKind::transport);
    profile.headers = {{"X", "a\r\nEvil: b"}};
    CHECK(failure_of(ask(profile, heard, cancel)).kind == FailureKind::config);
}

TEST_CASE("a silent provider is left at once when cancelled") {
    Fake fake;
    const auto files = [] {
        return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
    };
    const auto before = files();
    for (const char* step :
         {R"([{"text": "x", "stall": 0}])", R"([{"text": "abcdefgh", "stall": 300}])"}) {
        fake.script(step);
        CancelToken cancel;
        Heard heard;
        std::thread other([&] {
            cancel.wait_until(shared::Monotonic::now() + 300ms);
            cancel.cancel();
        });
        const auto failure = failure_of(ask(fake.profile(Protocol::responses), heard, cancel));
        other.join();
        CHECK(failure.kind == FailureKind::cancelled);
    }
    const auto deadline = shared::Monotonic::now() + 10s;
    while (files() > before && shared::Monotonic::now() < deadline) std::this_thread::yield();
    CHECK(files() == before);
}
