#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "shared/archive.h"
#include "shared/control_messages.h"
#include "shared/messages.h"

using namespace shared;

namespace {

const HostReport kReport{HostState::ready,
                         HostStep::staging,
                         "words",
                         "Linux",
                         "x86_64",
                         "/home/a b",
                         "box",
                         "me",
                         "/usr/bin/python3",
                         "3.11.2",
                         "0123456789abcdef",
                         "/run/%C",
                         1'700'000'000'000};

const ProcessInfo kProcess{"agent", "box", 4711, "up", 1, 2, 3, "exit 1", 4, 5, {1, -2, 3}};

/// Every alternative of every variant, with all fields filled.
template <class Variant>
std::vector<Variant> samples();

template <>
std::vector<ToAgent> samples() {
    return {Configure{kReport, "/opt/py"},
            Probe{1, -5, true},
            OpenKernel{2, true, "{}"},
            CloseKernel{3},
            KernelFrame{4, 5, 6, 7, std::string("\0\xff\n", 3)},
            EndKernel{8, 9, "/run/x"},
            Browse{10, 11, true, "{\"a\": 1}"},
            Cancel{12},
            Ping{13, 14},
            Fault{15, 16, FaultKind::stop}};
}
template <>
std::vector<FromAgent> samples() {
    return {Answer{1, true, ErrorCode::gone, "why", "{}", kReport}, HostChanged{kReport},
            KernelOpened{2, "/run/y"}, KernelClosed{3, CloseReason::elsewhere, "other box"},
            KernelFrame{4, 5, 6, 7, std::string(70'000, 'x')}};
}
template <>
std::vector<ToChild> samples() {
    return {Welcome{"/home", "box", "token", "owner", 65535, 7},
            ChannelOffer{"box", 8},
            AgentDown{"box", 9, "signal 9 (Killed)", true},
            Drain{},
            Processes{1, {kProcess, kProcess}, true},
            Flight{2, {3, 4}, {"a", ""}, false},
            Steered{5, true, "done"}};
}
template <>
std::vector<FromChild> samples() {
    return {Ready{},
            WantHost{"box"},
            SteerHost{1, "box", Steering::kill},
            AskProcesses{2},
            AskFlight{3, "box"},
            WantShutdown{},
            HandoverFailed{"box", 4},
            HideVariables{{"KEY", "OTHER"}}};
}

template <class Variant>
void refuse(const std::string& bytes) {
    const auto decoded = decode<Variant>(bytes);
    REQUIRE_FALSE(decoded);
    REQUIRE(decoded.error().code == ErrorCode::protocol);
}

/// Decodes what may be anything. What is accepted has a form of its own that reads back.
template <class Variant>
void survive(const std::string& bytes) {
    if (const auto decoded = decode<Variant>(bytes)) {
        const std::string again = encode(*decoded);
        REQUIRE(again.size() == bytes.size());
    }
}

}  // namespace

TEMPLATE_TEST_CASE("every message reads back whole", "", ToAgent, FromAgent, ToChild, FromChild) {
    const auto all = samples<TestType>();
    REQUIRE(all.size() == std::variant_size_v<TestType>);
    for (std::size_t i = 0; i < all.size(); ++i) {
        REQUIRE(all[i].index() == i);
        const std::string bytes = encode(all[i]);
        const auto decoded = decode<TestType>(bytes);
        REQUIRE(decoded);
        CHECK(decoded->index() == i);
        CHECK(encode(*decoded) == bytes);  // the encoding is one-to-one
    }
}

TEST_CASE("fields arrive where they left") {
    const auto frame = decode<ToAgent>(encode(ToAgent(KernelFrame{4, 5, 6, 7, "payload"})));
    const auto& got = std::get<KernelFrame>(*frame);
    CHECK(got.kernel == 4);
    CHECK(got.kind == 5);
    CHECK(got.seq == 6);
    CHECK(got.ack == 7);
    CHECK(got.payload == "payload");
    const auto answer = decode<FromAgent>(encode(samples<FromAgent>()[0]));
    const auto& report = std::get<Answer>(*answer).report;
    CHECK(report.state == HostState::ready);
    CHECK(report.home == kReport.home);
    CHECK(report.checked_wall_ms == kReport.checked_wall_ms);
    const auto processes = decode<ToChild>(encode(samples<ToChild>()[4]));
    CHECK(std::get<Processes>(*processes).processes.at(1).counters == kProcess.counters);
}

TEMPLATE_TEST_CASE("cut anywhere, or with a byte more, it is refused", "", ToAgent, FromAgent,
                   ToChild, FromChild) {
    for (const auto& sample : samples<TestType>()) {
        const std::string bytes = encode(sample);
        const std::size_t step = bytes.size() > 4096 ? 997 : 1;
        for (std::size_t size = 0; size < bytes.size(); size += step) {
            refuse<TestType>(bytes.substr(0, size));
        }
        refuse<TestType>(bytes + '\0');
    }
}

TEMPLATE_TEST_CASE("every byte changed: a value of the same size or an error", "", ToAgent,
                   FromAgent, ToChild, FromChild) {
    for (const auto& sample : samples<TestType>()) {
        std::string bytes = encode(sample);
        const std::size_t step = bytes.size() > 4096 ? 997 : 1;
        for (std::size_t at = 0; at < bytes.size(); at += step) {
            const char was = bytes[at];
            for (const int flip : {0x01, 0x80, 0xff}) {
                bytes[at] = static_cast<char>(was ^ flip);
                survive<TestType>(bytes);
            }
            bytes[at] = was;
        }
    }
}

TEST_CASE("a size in the bytes allocates nothing that did not come") {
    // Each eight-byte window that could be a size says 3 GiB, 2^63 and 2^64-1.
    for (const std::uint64_t huge :
         {std::uint64_t{3} << 30, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
        for (const auto& sample : samples<ToChild>()) {
            const std::string bytes = encode(sample);
            for (std::size_t at = 0; at + sizeof huge <= bytes.size(); ++at) {
                std::string changed = bytes;
                std::memcpy(changed.data() + at, &huge, sizeof huge);
                survive<ToChild>(changed);
            }
        }
    }
}

TEST_CASE("many elements claimed in a long message cost a bounded multiple of it") {
    // 64 KiB of zeros behind a count of 60,000 processes: refused when they run out.
    std::string bytes = encode(ToChild(Processes{1, {}, false}));
    const std::uint64_t count = 60'000;
    std::memcpy(bytes.data() + bytes.size() - 9, &count, sizeof count);
    bytes.append(64 * 1024, '\0');
    refuse<ToChild>(bytes);
}

TEMPLATE_TEST_CASE("random bytes never do harm", "", ToAgent, FromAgent, ToChild, FromChild) {
    std::mt19937 random(20261201);
    for (int round = 0; round < 20'000; ++round) {
        std::string bytes(random() % 120, '\0');
        for (char& each : bytes) each = static_cast<char>(random() % 3 == 0 ? random() : 0);
        if (!bytes.empty() && round % 2 == 0) bytes[0] = static_cast<char>(random() % 10);
        survive<TestType>(bytes);
    }
}
