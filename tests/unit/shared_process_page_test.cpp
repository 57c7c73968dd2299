#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "shared/process_page.h"

using namespace shared;

namespace {

UniqueFd copy_of(int fd) {
    return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
}

}  // namespace

TEST_CASE("what a child wrote outlives its SIGKILL") {
    const ProcessPage page = ProcessPage::create();
    const pid_t pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        auto own = ProcessPage::attach(copy_of(page.fd()));
        if (!own) ::_exit(1);
        own->beat(from_monotonic_ms(123'456));
        own->add(Counter::calls, 2);
        own->add(Counter::calls);
        own->set(Counter::kernels, -7);
        own->record("bridge opened");
        own->record(std::string(500, 'x'));
        ::raise(SIGKILL);
    }
    int status = 0;
    REQUIRE(::waitpid(pid, &status, 0) == pid);
    REQUIRE(WIFSIGNALED(status));
    CHECK(monotonic_ms(page.last_beat()) == 123'456);
    CHECK(page.counter(Counter::calls) == 3);
    CHECK(page.counter(Counter::kernels) == -7);
    const auto events = page.recent();
    REQUIRE(events.size() == 2);
    CHECK(events[0].text == "bridge opened");
    CHECK(events[1].text == std::string(kFlightEventBytes, 'x'));
    CHECK(std::abs(events[0].wall_ms - wall_ms()) < 60'000);
}

TEST_CASE("the newest events are kept, oldest first") {
    ProcessPage page = ProcessPage::create();
    for (std::size_t i = 0; i < kFlightEvents + 10; ++i) page.record(std::to_string(i));
    const auto events = page.recent();
    REQUIRE(events.size() == kFlightEvents);
    CHECK(events.front().text == "10");
    CHECK(events.back().text == std::to_string(kFlightEvents + 9));
}

TEST_CASE("a descriptor that is no page is refused") {
    CHECK_FALSE(ProcessPage::attach(UniqueFd()));
    CHECK_FALSE(ProcessPage::attach(UniqueFd(::open("/dev/zero", O_RDWR | O_CLOEXEC))));
    UniqueFd unsealed(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    REQUIRE(::ftruncate(unsealed.get(), 1 << 20) == 0);
    CHECK_FALSE(ProcessPage::attach(std::move(unsealed)));
}

TEST_CASE("whatever a writer leaves there, reading ends and stays within bounds") {
    const ProcessPage page = ProcessPage::create();
    const auto size = static_cast<std::size_t>(::lseek(page.fd(), 0, SEEK_END));
    auto* bytes = static_cast<unsigned char*>(
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, page.fd(), 0));
    REQUIRE(bytes != MAP_FAILED);
    std::mt19937 random(20261201);
    for (int round = 0; round < 200; ++round) {
        for (std::size_t i = 0; i < size; ++i) {
            bytes[i] = static_cast<unsigned char>(round < 3 ? 0xff >> round : random());
        }
        const auto events = page.recent();
        REQUIRE(events.size() <= kFlightEvents);
        for (const auto& event : events) REQUIRE(event.text.size() <= kFlightEventBytes);
        (void)page.last_beat();
    }
    ::munmap(bytes, size);
}

TEST_CASE("every counter has a name") {
    for (int i = 0; i < static_cast<int>(Counter::kCount); ++i) {
        CHECK(std::strlen(to_string(static_cast<Counter>(i))) > 0);
    }
}
