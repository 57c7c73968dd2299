#include "shared/channel.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "shared/sealed_memory.h"

namespace shared {
namespace {

constexpr std::uint64_t kMagic = 0x31306c6e68636264;  // "dbchnl01"
constexpr std::size_t kLine = 64;  // a cache line each for what different sides write
constexpr std::size_t kRecordHead = 4;
constexpr std::uint32_t kLastFragment = 1U << 31;
constexpr std::size_t kLargestRecord = kRecordHead + kMaxFragmentBytes;

/// Cursors count bytes ever written and ever read; their difference is what the ring holds.
struct Ring {
    alignas(kLine) std::atomic<std::uint64_t> written;  // the writer's
    alignas(kLine) std::atomic<std::uint64_t> read;     // the reader's
    alignas(kLine) std::atomic<std::uint32_t> reader_sleeps;
    alignas(kLine) std::atomic<std::uint32_t> writer_waits;
};

struct Layout {
    std::uint64_t magic;
    std::array<Ring, 2> rings;  // [0] written by the api, [1] by the agent
    alignas(4096) std::array<std::array<char, kRingBytes>, 2> bytes;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert((kRingBytes & (kRingBytes - 1)) == 0);

Error rule_broken(const char* what) {
    return {ErrorCode::protocol, std::string("channel: ") + what, {}};
}

void wake(int fd) {
    const std::uint64_t one = 1;
    (void)!::write(fd, &one, sizeof one);  // EAGAIN: the other side has wake-ups to take already
}

UniqueFd make_eventfd() {
    UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!fd) throw std::system_error(errno, std::generic_category(), "eventfd");
    return fd;
}

UniqueFd duplicate(const UniqueFd& fd) {
    UniqueFd copy(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
    if (!copy) throw std::system_error(errno, std::generic_category(), "dup");
    return copy;
}

}  // namespace

ChannelPair create_channel() {
    UniqueFd memory = create_sealed_memory("albedo-channel", sizeof(Layout));
    auto mapping = SealedMemory::map(memory.get(), sizeof(Layout));
    if (!mapping) throw std::system_error(ENOMEM, std::generic_category(), mapping.error().message);
    static_cast<Layout*>(mapping->data())->magic = kMagic;
    UniqueFd api_wake = make_eventfd();
    UniqueFd agent_wake = make_eventfd();
    ChannelPair pair;
    pair.api = {duplicate(memory), duplicate(api_wake), duplicate(agent_wake)};
    pair.agent = {std::move(memory), std::move(agent_wake), std::move(api_wake)};
    return pair;
}

struct ChannelEnd::State {
    explicit State(SealedMemory mapping) : memory(std::move(mapping)) {}
    SealedMemory memory;
    UniqueFd own_wake;
    UniqueFd peer_wake;
    Ring* out = nullptr;
    Ring* in = nullptr;
    char* out_bytes = nullptr;
    const char* in_bytes = nullptr;
    // Private copies: what this side published, and what it last believed of the peer.
    std::uint64_t written = 0;
    std::uint64_t peer_read = 0;
    std::uint64_t read = 0;
    std::uint64_t peer_written = 0;
    std::deque<std::string> queue;
    std::size_t queue_offset = 0;  // of the first message: what is in the ring already
    std::size_t queued_bytes = 0;
    std::string partial;  // fragments of a message that is not whole yet
    ChannelCounters counters;
    std::optional<Error> broken;  // once said, said for ever: the cursors mean nothing any more

    Error fail(const char* what) {
        broken = rule_broken(what);
        return *broken;
    }

    std::size_t room() const { return kRingBytes - static_cast<std::size_t>(written - peer_read); }

    Result<void> look_at_reader() {
        const std::uint64_t now = out->read.load(std::memory_order_acquire);
        if (now - peer_read > written - peer_read) return fail("the reader is ahead of the writer");
        peer_read = now;
        return {};
    }

    Result<void> look_at_writer() {
        const std::uint64_t now = in->written.load(std::memory_order_acquire);
        if (now - read > kRingBytes || now - read < peer_written - read) {
            return fail("the writer is out of bounds");
        }
        peer_written = now;
        return {};
    }

    void put(const char* bytes, std::size_t size) {
        const std::size_t at = static_cast<std::size_t>(written % kRingBytes);
        const std::size_t first = std::min(size, kRingBytes - at);
        std::memcpy(out_bytes + at, bytes, first);
        std::memcpy(out_bytes, bytes + first, size - first);
        written += size;
    }

    void take(char* bytes, std::size_t size) {
        const std::size_t at = static_cast<std::size_t>(read % kRingBytes);
        const std::size_t first = std::min(size, kRingBytes - at);
        std::memcpy(bytes, in_bytes + at, first);
        std::memcpy(bytes + first, in_bytes, size - first);
        read += size;
    }

    std::size_t next_fragment() const {
        return std::min(kMaxFragmentBytes, queue.front().size() - queue_offset);
    }

    /// Whether the next fragment fits; if not, the reader is asked to wake us, and asked again in
    /// case it made room just before.
    Result<bool> room_for_next() {
        const std::size_t needed = kRecordHead + next_fragment();
        if (room() >= needed) return true;
        if (auto looked = look_at_reader(); !looked) return std::move(looked).error();
        if (room() >= needed) return true;
        out->writer_waits.store(1, std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (auto looked = look_at_reader(); !looked) return std::move(looked).error();
        return room() >= needed;
    }

    void put_next_fragment() {
        std::string& message = queue.front();
        const std::size_t size = next_fragment();
        const bool last = queue_offset + size == message.size();
        const std::uint32_t head = static_cast<std::uint32_t>(size) | (last ? kLastFragment : 0);
        put(reinterpret_cast<const char*>(&head), sizeof head);
        put(message.data() + queue_offset, size);
        counters.bytes_sent += size;
        queue_offset += size;
        queued_bytes -= size;
        if (last) {
            ++counters.messages_sent;
            queue_offset = 0;
            queue.pop_front();
        }
    }

    void wake_reader_if_asleep() {
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (out->reader_sleeps.load(std::memory_order_relaxed) == 0) return;
        out->reader_sleeps.store(0, std::memory_order_relaxed);
        ++counters.wakes_sent;
        wake(peer_wake.get());
    }

    /// Once the largest record fits again, so that a writer is not woken for every few bytes.
    void wake_writer_if_waiting() {
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (in->writer_waits.load(std::memory_order_relaxed) == 0) return;
        if (kRingBytes - static_cast<std::size_t>(peer_written - read) < kLargestRecord) return;
        in->writer_waits.store(0, std::memory_order_relaxed);
        ++counters.wakes_sent;
        wake(peer_wake.get());
    }
};

Result<ChannelEnd> ChannelEnd::attach(ChannelDescriptors descriptors, ChannelSide side) {
    auto mapping = SealedMemory::map(descriptors.memory.get(), sizeof(Layout));
    if (!mapping) return std::move(mapping).error();
    if (!descriptors.own_wake || !descriptors.peer_wake) {
        return rule_broken("a wake-up descriptor is missing");
    }
    auto state = std::make_unique<State>(std::move(*mapping));
    auto* layout = static_cast<Layout*>(state->memory.data());
    if (layout->magic != kMagic) return rule_broken("the memory is of another version");
    const std::size_t own = static_cast<std::size_t>(side);
    state->out = &layout->rings[own];
    state->in = &layout->rings[1 - own];
    state->out_bytes = layout->bytes[own].data();
    state->in_bytes = layout->bytes[1 - own].data();
    state->own_wake = std::move(descriptors.own_wake);
    state->peer_wake = std::move(descriptors.peer_wake);
    return ChannelEnd(std::move(state));
}

ChannelEnd::ChannelEnd(std::unique_ptr<State> state) : state_(std::move(state)) {}
ChannelEnd::ChannelEnd(ChannelEnd&&) noexcept = default;
ChannelEnd& ChannelEnd::operator=(ChannelEnd&&) noexcept = default;
ChannelEnd::~ChannelEnd() = default;

Result<void> ChannelEnd::send(std::string message) {
    if (state_->broken) return *state_->broken;
    if (message.empty() || message.size() > kMaxMessageBytes) {
        return Error{ErrorCode::too_large, "channel: a message is empty or over 8 MiB", {}};
    }
    state_->queued_bytes += message.size();
    state_->queue.push_back(std::move(message));
    return flush();
}

Result<void> ChannelEnd::flush() {
    State& state = *state_;
    if (state.broken) return *state.broken;
    bool put = false;
    while (!state.queue.empty()) {
        auto fits = state.room_for_next();
        if (!fits) return std::move(fits).error();
        if (!*fits) {
            ++state.counters.full;
            break;
        }
        state.put_next_fragment();
        state.out->written.store(state.written, std::memory_order_release);
        put = true;
    }
    if (put) state.wake_reader_if_asleep();
    return {};
}

std::size_t ChannelEnd::queued_bytes() const {
    return state_->queued_bytes;
}

Result<std::optional<std::string>> ChannelEnd::receive() {
    State& state = *state_;
    if (state.broken) return *state.broken;
    for (;;) {
        if (state.peer_written == state.read) {
            if (auto looked = state.look_at_writer(); !looked) return std::move(looked).error();
            if (state.peer_written == state.read) return std::optional<std::string>();
        }
        // The writer publishes whole records only, so what is there starts with one.
        const std::uint64_t there = state.peer_written - state.read;
        if (there < kRecordHead) return state.fail("a record is cut short");
        std::uint32_t head = 0;
        state.take(reinterpret_cast<char*>(&head), sizeof head);
        const std::size_t size = head & ~kLastFragment;
        // An empty one would let a peer hold us in this loop for ever.
        if (size == 0 || size > kMaxFragmentBytes || size > there - kRecordHead ||
            state.partial.size() + size > kMaxMessageBytes) {
            return state.fail("a record is over its bounds");
        }
        const std::size_t before = state.partial.size();
        state.partial.resize(before + size);
        state.take(state.partial.data() + before, size);
        state.in->read.store(state.read, std::memory_order_release);
        state.wake_writer_if_waiting();
        state.counters.bytes_received += size;
        if ((head & kLastFragment) != 0) {
            ++state.counters.messages_received;
            return std::optional<std::string>(std::exchange(state.partial, {}));
        }
    }
}

int ChannelEnd::wake_fd() const {
    return state_->own_wake.get();
}

void ChannelEnd::woken() {
    std::uint64_t count = 0;
    if (::read(state_->own_wake.get(), &count, sizeof count) == sizeof count) {
        ++state_->counters.wakes_received;
    }
    state_->in->reader_sleeps.store(0, std::memory_order_relaxed);
}

bool ChannelEnd::prepare_to_sleep() {
    State& state = *state_;
    if (state.broken) return false;  // the receive that follows says why
    state.in->reader_sleeps.store(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    bool sleep = state.in->written.load(std::memory_order_acquire) == state.read;
    if (sleep && !state.queue.empty()) {
        const auto fits = state.room_for_next();
        sleep = fits.ok() && !*fits;  // an error shows in the flush that follows
    }
    if (!sleep) state.in->reader_sleeps.store(0, std::memory_order_relaxed);
    return sleep;
}

const ChannelCounters& ChannelEnd::counters() const {
    return state_->counters;
}

}  // namespace shared
