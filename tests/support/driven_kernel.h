// A kernel behind a driven agent, as the api would speak to it: attach, hello, numbered frames.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "shared/clock.h"
#include "shared/frame_codec.h"
#include "shared/ids.h"
#include "tests/support/agent_driver.h"

namespace support {

/// One kernel as the api sees it: a number, a token, and frames.
struct DrivenKernel {
    DrivenKernel(AgentDriver& with, std::string in_folder)
        : driver(&with),
          folder(std::move(in_folder)),
          run_id(shared::random_hex(4)),
          token(shared::random_hex(16)) {}

    nlohmann::json attach() {
        return {{"token", token},  {"owner", "test"}, {"attempt", shared::monotonic_ms()},
                {"ack", received}, {"grace", 60},     {"credits", nlohmann::json::array()}};
    }
    void start(std::uint32_t as) {
        number = as;
        const nlohmann::json request{{"run_id", run_id},
                                     {"folder", folder},
                                     {"session", "s"},
                                     {"token", token},
                                     {"grace", 60},
                                     {"login", false},
                                     {"settings", nlohmann::json::object()},
                                     {"attach", attach()}};
        driver->send(shared::OpenKernel{number, true, request.dump()});
    }
    void open(std::uint32_t as) {
        number = as;
        driver->send(shared::OpenKernel{number, false,
                                        nlohmann::json{{"run", run}, {"attach", attach()}}.dump()});
    }
    bool opened() {
        const auto message = driver->wait([this](const shared::FromAgent& from) {
            const auto* open = std::get_if<shared::KernelOpened>(&from);
            return (open && open->kernel == number) || is_closed(from);
        });
        if (!message || !std::holds_alternative<shared::KernelOpened>(*message)) return false;
        run = std::get<shared::KernelOpened>(*message).run;
        const auto hello = frame(shared::FrameKind::hello);
        if (!hello) return false;
        sent = hello->value("ack", 0u);
        return true;
    }
    std::optional<shared::KernelClosed> closed(int milliseconds = 10'000) {
        const auto message = driver->wait(
            [this](const shared::FromAgent& from) { return is_closed(from); }, milliseconds);
        if (!message) return std::nullopt;
        return std::get<shared::KernelClosed>(*message);
    }
    bool is_closed(const shared::FromAgent& from) const {
        const auto* close = std::get_if<shared::KernelClosed>(&from);
        return close && close->kernel == number;
    }
    std::optional<nlohmann::json> frame(shared::FrameKind kind, const std::string& type = {}) {
        const auto message = driver->wait([&](const shared::FromAgent& from) {
            const auto* one = std::get_if<shared::KernelFrame>(&from);
            if (!one || one->kernel != number || one->kind != static_cast<std::uint8_t>(kind))
                return false;
            return type.empty() || nlohmann::json::parse(one->payload).value("t", "") == type;
        });
        if (!message) return std::nullopt;
        const auto& one = std::get<shared::KernelFrame>(*message);
        received = std::max(received, one.seq);
        return nlohmann::json::parse(one.payload);
    }
    void execute(const std::string& code) {
        shared::KernelFrame out;
        out.kernel = number;
        out.kind = static_cast<std::uint8_t>(shared::FrameKind::control);
        out.seq = ++sent;
        out.ack = received;
        out.payload = nlohmann::json{
            {"t", "execute"},
            {"cell", shared::CellId::make().text()},
            {"code", code},
            {"credit",
             65536}}.dump();
        driver->send(out);
    }
    std::string value_of(const std::string& code) {
        execute(code);
        const auto done = frame(shared::FrameKind::control, "done");
        if (!done) return "no answer";
        return done->at("value").is_string() ? done->at("value").get<std::string>() : done->dump();
    }

    AgentDriver* driver;
    std::string folder, run_id, token, run;
    std::uint32_t number = 0;
    std::uint64_t sent = 0, received = 0;
};

}  // namespace support
