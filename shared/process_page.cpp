#include "shared/process_page.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "shared/sealed_memory.h"

namespace shared {
namespace {

constexpr std::uint64_t kMagic = 0x31656761506f6462;  // "bdoPage1"
constexpr std::size_t kCounters = static_cast<std::size_t>(Counter::kCount);

/// One event. `ticket` is written last, and zeroed first: a slot whose ticket is not the one its
/// place asks for was torn by the writer's death and is left out.
struct Slot {
    std::atomic<std::uint64_t> ticket;
    std::atomic<std::int64_t> wall_ms;
    char text[kFlightEventBytes];
};

struct Layout {
    std::uint64_t magic;
    std::atomic<std::int64_t> beat_ns;
    std::array<std::atomic<std::int64_t>, kCounters> counters;
    std::atomic<std::uint64_t> events;  // how many were ever recorded
    std::array<Slot, kFlightEvents> slots;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

std::int64_t nanoseconds(TimePoint when) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(when.time_since_epoch()).count();
}

}  // namespace

struct ProcessPage::State {
    UniqueFd fd;  // the creator's, to hand over
    SealedMemory memory;
    Layout* layout = static_cast<Layout*>(memory.data());
};

const char* to_string(Counter counter) {
    switch (counter) {
        case Counter::requests:
            return "requests";
        case Counter::calls:
            return "calls";
        case Counter::calls_in_flight:
            return "calls_in_flight";
        case Counter::messages_in:
            return "messages_in";
        case Counter::messages_out:
            return "messages_out";
        case Counter::bytes_in:
            return "bytes_in";
        case Counter::bytes_out:
            return "bytes_out";
        case Counter::wakes:
            return "wakes";
        case Counter::cells:
            return "cells";
        case Counter::kernels:
            return "kernels";
        case Counter::errors:
            return "errors";
        case Counter::kCount:
            break;
    }
    return "";
}

ProcessPage::ProcessPage(std::unique_ptr<State> state) : state_(std::move(state)) {}
ProcessPage::ProcessPage(ProcessPage&&) noexcept = default;
ProcessPage& ProcessPage::operator=(ProcessPage&&) noexcept = default;
ProcessPage::~ProcessPage() = default;

ProcessPage ProcessPage::create() {
    UniqueFd fd = create_sealed_memory("albedo-page", sizeof(Layout));
    auto memory = SealedMemory::map(fd.get(), sizeof(Layout));
    if (!memory) throw std::system_error(ENOMEM, std::generic_category(), memory.error().message);
    auto state = std::unique_ptr<State>(new State{std::move(fd), std::move(*memory)});
    state->layout->magic = kMagic;
    return ProcessPage(std::move(state));
}

Result<ProcessPage> ProcessPage::attach(UniqueFd fd) {
    auto memory = SealedMemory::map(fd.get(), sizeof(Layout));
    if (!memory) return std::move(memory).error();
    auto state = std::unique_ptr<State>(new State{UniqueFd(), std::move(*memory)});
    if (state->layout->magic != kMagic) {
        return Error{ErrorCode::protocol, "the process page is of another version", {}};
    }
    return ProcessPage(std::move(state));
}

int ProcessPage::fd() const {
    return state_->fd.get();
}

void ProcessPage::beat(TimePoint now) {
    state_->layout->beat_ns.store(nanoseconds(now), std::memory_order_relaxed);
}

void ProcessPage::add(Counter counter, std::int64_t amount) {
    state_->layout->counters[static_cast<std::size_t>(counter)].fetch_add(
        amount, std::memory_order_relaxed);
}

void ProcessPage::set(Counter counter, std::int64_t value) {
    state_->layout->counters[static_cast<std::size_t>(counter)].store(value,
                                                                      std::memory_order_relaxed);
}

void ProcessPage::record(std::string_view event) {
    const std::uint64_t number = state_->layout->events.fetch_add(1, std::memory_order_relaxed);
    Slot& slot = state_->layout->slots[number % kFlightEvents];
    slot.ticket.store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    slot.wall_ms.store(wall_ms(), std::memory_order_relaxed);
    const std::size_t size = std::min(event.size(), kFlightEventBytes);
    std::memcpy(slot.text, event.data(), size);
    if (size < kFlightEventBytes) slot.text[size] = '\0';
    slot.ticket.store(number + 1, std::memory_order_release);
}

TimePoint ProcessPage::last_beat() const {
    const std::int64_t ns = state_->layout->beat_ns.load(std::memory_order_relaxed);
    return TimePoint(std::chrono::duration_cast<Monotonic::duration>(std::chrono::nanoseconds(ns)));
}

std::int64_t ProcessPage::counter(Counter counter) const {
    return state_->layout->counters[static_cast<std::size_t>(counter)].load(
        std::memory_order_relaxed);
}

std::vector<FlightEvent> ProcessPage::recent() const {
    std::vector<FlightEvent> events;
    const std::uint64_t count = state_->layout->events.load(std::memory_order_acquire);
    const std::uint64_t first = count > kFlightEvents ? count - kFlightEvents : 0;
    // `count` is the writer's word: never more than every slot is looked at.
    for (std::uint64_t number = first; number < count; ++number) {
        const Slot& slot = state_->layout->slots[number % kFlightEvents];
        if (slot.ticket.load(std::memory_order_acquire) != number + 1) continue;
        char text[kFlightEventBytes];
        std::memcpy(text, slot.text, sizeof text);
        FlightEvent event{slot.wall_ms.load(std::memory_order_relaxed),
                          std::string(text, ::strnlen(text, sizeof text))};
        std::atomic_thread_fence(std::memory_order_acquire);
        if (slot.ticket.load(std::memory_order_relaxed) == number + 1) {
            events.push_back(std::move(event));
        }
    }
    return events;
}

}  // namespace shared
