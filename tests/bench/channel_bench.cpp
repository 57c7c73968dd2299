// The channel beside what else could stand there, between two processes of this machine, one after
// the other in every round of one run:
//   channel  shared::ChannelEnd
//   ring     two bare SPSC rings with eventfds: no fragments, no checks of the peer, no queue
//   pipe     two pipes, length and bytes
//   queue    two boost::interprocess::message_queue
// Rows: group, name, median, p99, unit, n. Optional argument: rounds.
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/interprocess/ipc/message_queue.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "shared/channel.h"
#include "shared/clock.h"

namespace {

constexpr std::size_t kTrips = 2000;
constexpr std::size_t kStreamBytes = 16 << 20;
constexpr std::size_t kLargest = 4096;
constexpr int kHangMs = 10'000;

[[noreturn]] void die(const char* what) {
    std::perror(what);
    std::_Exit(2);
}

void wait_for(int fd) {
    pollfd watched{fd, POLLIN, 0};
    if (::poll(&watched, 1, kHangMs) != 1) die("hang");
}

/// One side of a way to send messages; receive() waits.
class Side {
  public:
    virtual ~Side() = default;
    virtual void send(const char* bytes, std::size_t size) = 0;
    virtual std::size_t receive() = 0;
};

class ChannelSide : public Side {
  public:
    ChannelSide(shared::ChannelDescriptors descriptors, shared::ChannelSide side)
        : end_(*shared::ChannelEnd::attach(std::move(descriptors), side)) {}
    void send(const char* bytes, std::size_t size) override {
        if (!end_.send(std::string(bytes, size))) die("send");
        while (end_.queued_bytes() > 0) rest();
    }
    std::size_t receive() override {
        for (;;) {
            auto got = end_.receive();
            if (!got) die("receive");
            if (*got) return (**got).size();
            rest();
        }
    }

  private:
    void rest() {
        if (end_.prepare_to_sleep()) {
            wait_for(end_.wake_fd());
            end_.woken();
        }
        if (!end_.flush()) die("flush");
    }
    shared::ChannelEnd end_;
};

struct BareRing {
    static constexpr std::size_t kBytes = shared::kRingBytes;
    alignas(64) std::atomic<std::uint64_t> written;
    alignas(64) std::atomic<std::uint64_t> read;
    alignas(64) std::atomic<std::uint32_t> reader_sleeps;
    alignas(64) std::atomic<std::uint32_t> writer_sleeps;
    alignas(64) char data[kBytes];
};

class RingSide : public Side {
  public:
    RingSide(BareRing& out, BareRing& in, int own_wake, int peer_wake)
        : out_(out), in_(in), own_wake_(own_wake), peer_wake_(peer_wake) {}
    void send(const char* bytes, std::size_t size) override {
        const std::uint64_t written = out_.written.load(std::memory_order_relaxed);
        const auto room = [&] {
            return BareRing::kBytes - (written - out_.read.load()) >= size + sizeof(std::uint32_t);
        };
        while (!room()) sleep(out_.writer_sleeps, room);
        const std::uint32_t length = static_cast<std::uint32_t>(size);
        copy_in(written, reinterpret_cast<const char*>(&length), sizeof length);
        copy_in(written + sizeof length, bytes, size);
        out_.written.store(written + sizeof length + size);
        wake(out_.reader_sleeps);
    }
    std::size_t receive() override {
        const std::uint64_t read = in_.read.load(std::memory_order_relaxed);
        const auto there = [&] { return in_.written.load() != read; };
        while (!there()) sleep(in_.reader_sleeps, there);
        std::uint32_t length = 0;
        copy_out(read, reinterpret_cast<char*>(&length), sizeof length);
        std::string message(length, '\0');  // as the channel does: one string a message
        copy_out(read + sizeof length, message.data(), length);
        in_.read.store(read + sizeof length + length);
        const std::uint64_t held = in_.written.load(std::memory_order_relaxed) - in_.read;
        if (held < BareRing::kBytes / 2) wake(in_.writer_sleeps);
        return message.size();
    }

  private:
    void copy_in(std::uint64_t at, const char* bytes, std::size_t size) {
        const std::size_t first = std::min(size, BareRing::kBytes - at % BareRing::kBytes);
        std::memcpy(out_.data + at % BareRing::kBytes, bytes, first);
        std::memcpy(out_.data, bytes + first, size - first);
    }
    void copy_out(std::uint64_t at, char* bytes, std::size_t size) const {
        const std::size_t first = std::min(size, BareRing::kBytes - at % BareRing::kBytes);
        std::memcpy(bytes, in_.data + at % BareRing::kBytes, first);
        std::memcpy(bytes + first, in_.data, size - first);
    }
    template <class Condition>
    void sleep(std::atomic<std::uint32_t>& mark, Condition condition) {
        mark.store(1);
        if (!condition()) {
            wait_for(own_wake_);
            std::uint64_t count;
            if (::read(own_wake_, &count, sizeof count) < 0) die("read");
        }
        mark.store(0);
    }
    void wake(std::atomic<std::uint32_t>& mark) {
        if (mark.load() == 0 || mark.exchange(0) == 0) return;
        const std::uint64_t one = 1;
        if (::write(peer_wake_, &one, sizeof one) < 0) die("write");
    }
    BareRing &out_, &in_;
    int own_wake_, peer_wake_;
};

class PipeSide : public Side {
  public:
    PipeSide(int in, int out) : in_(in), out_(out) {}
    void send(const char* bytes, std::size_t size) override {
        char whole[sizeof(std::uint32_t) + kLargest];
        const std::uint32_t length = static_cast<std::uint32_t>(size);
        std::memcpy(whole, &length, sizeof length);
        std::memcpy(whole + sizeof length, bytes, size);
        for (std::size_t at = 0; at < sizeof length + size;) {
            const ssize_t put = ::write(out_, whole + at, sizeof length + size - at);
            if (put < 0) die("write");
            at += static_cast<std::size_t>(put);
        }
    }
    std::size_t receive() override {
        std::uint32_t length = 0;
        take(&length, sizeof length);
        std::string message(length, '\0');
        take(message.data(), length);
        return message.size();
    }

  private:
    void take(void* to, std::size_t size) {
        for (std::size_t at = 0; at < size;) {
            const ssize_t got = ::read(in_, static_cast<char*>(to) + at, size - at);
            if (got <= 0) die("read");
            at += static_cast<std::size_t>(got);
        }
    }
    int in_, out_;
};

class QueueSide : public Side {
  public:
    QueueSide(const std::string& in, const std::string& out)
        : in_(boost::interprocess::open_only, in.c_str()),
          out_(boost::interprocess::open_only, out.c_str()) {}
    void send(const char* bytes, std::size_t size) override { out_.send(bytes, size, 0); }
    std::size_t receive() override {
        std::string message(kLargest, '\0');
        boost::interprocess::message_queue::size_type size = 0;
        unsigned priority = 0;
        in_.receive(message.data(), message.size(), size, priority);
        return size;
    }

  private:
    boost::interprocess::message_queue in_, out_;
};

using Child = std::function<void(Side&)>;
using Make = std::function<std::unique_ptr<Side>(bool left)>;

/// Both sides' ways in are made before the fork by `prepare`; each process makes its own side.
double timed(const Make& make, const Child& parent, const Child& child) {
    const pid_t pid = ::fork();
    if (pid < 0) die("fork");
    if (pid == 0) {
        child(*make(false));
        ::_exit(0);
    }
    const auto side = make(true);
    side->send("?", 1);  // both are up
    if (side->receive() != 1) die("start");
    const auto start = shared::Monotonic::now();
    parent(*side);
    const std::chrono::duration<double> took = shared::Monotonic::now() - start;
    int status = 0;
    if (::waitpid(pid, &status, 0) != pid || status != 0) die("child");
    return took.count();
}

std::map<std::string, std::function<Make()>> rivals() {
    std::map<std::string, std::function<Make()>> all;
    all["channel"] = [] {
        auto pair = std::make_shared<shared::ChannelPair>(shared::create_channel());
        return Make([pair](bool left) -> std::unique_ptr<Side> {
            return std::make_unique<ChannelSide>(
                std::move(left ? pair->api : pair->agent),
                left ? shared::ChannelSide::api : shared::ChannelSide::agent);
        });
    };
    all["ring"] = [] {
        void* memory = ::mmap(nullptr, 2 * sizeof(BareRing), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) die("mmap");
        const std::shared_ptr<BareRing> rings(static_cast<BareRing*>(memory), [](BareRing* each) {
            ::munmap(each, 2 * sizeof(BareRing));
        });
        auto wakes = std::make_shared<std::vector<shared::UniqueFd>>();
        for (int i = 0; i < 2; ++i) wakes->emplace_back(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        return Make([rings, wakes](bool left) -> std::unique_ptr<Side> {
            const int own = left ? 0 : 1;
            return std::make_unique<RingSide>(rings.get()[own], rings.get()[1 - own],
                                              wakes->at(static_cast<std::size_t>(own)).get(),
                                              wakes->at(static_cast<std::size_t>(1 - own)).get());
        });
    };
    all["pipe"] = [] {
        auto fds = std::make_shared<std::vector<shared::UniqueFd>>();
        for (int i = 0; i < 2; ++i) {
            int ends[2];
            if (::pipe(ends) < 0) die("pipe");
            fds->emplace_back(ends[0]);
            fds->emplace_back(ends[1]);
        }
        return Make([fds](bool left) -> std::unique_ptr<Side> {
            return std::make_unique<PipeSide>(fds->at(left ? 0 : 2).get(),
                                              fds->at(left ? 3 : 1).get());
        });
    };
    all["queue"] = [] {
        namespace ipc = boost::interprocess;
        const std::string base = "albedo-bench-" + std::to_string(::getpid());
        for (const char* end : {"-a", "-b"}) {
            ipc::message_queue::remove((base + end).c_str());
            ipc::message_queue(ipc::create_only, (base + end).c_str(), 64, kLargest);
        }
        const std::shared_ptr<int> owner(new int, [base](int* each) {
            delete each;
            for (const char* end : {"-a", "-b"}) ipc::message_queue::remove((base + end).c_str());
        });
        return Make([owner, base](bool left) -> std::unique_ptr<Side> {
            return std::make_unique<QueueSide>(base + (left ? "-a" : "-b"),
                                               base + (left ? "-b" : "-a"));
        });
    };
    return all;
}

void print(const std::string& group, const std::string& name, std::vector<double> samples,
           const char* unit, bool more_is_better) {
    std::sort(samples.begin(), samples.end());
    if (more_is_better) std::reverse(samples.begin(), samples.end());
    const std::size_t last = samples.size() - 1;
    std::printf("%s\t%s\t%.2f\t%.2f\t%s\t%zu\n", group.c_str(), name.c_str(), samples[last / 2],
                samples[last * 99 / 100], unit, samples.size());
}

}  // namespace

int main(int argc, char** argv) {
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 5;
    const std::string bytes(kLargest, 'x');
    std::map<std::pair<std::string, std::string>, std::vector<double>> trips, streams;
    for (int round = 0; round < rounds; ++round) {
        for (const std::size_t size : {std::size_t{64}, kLargest}) {
            for (const auto& [name, prepare] : rivals()) {
                const auto key = std::make_pair(std::to_string(size) + " B", name);
                auto& samples = trips[key];
                timed(
                    prepare(),
                    [&](Side& side) {
                        for (std::size_t i = 0; i < kTrips; ++i) {
                            const auto start = shared::Monotonic::now();
                            side.send(bytes.data(), size);
                            if (side.receive() != size) die("size");
                            const std::chrono::duration<double, std::micro> took =
                                shared::Monotonic::now() - start;
                            samples.push_back(took.count());
                        }
                    },
                    [&](Side& side) {
                        for (std::size_t i = 0; i < kTrips + 1; ++i) {
                            side.send(bytes.data(), side.receive());
                        }
                    });
                const std::size_t count = kStreamBytes / size;
                const double seconds = timed(
                    prepare(),
                    [&](Side& side) {
                        for (std::size_t i = 0; i < count; ++i) side.send(bytes.data(), size);
                        if (side.receive() != 1) die("end");
                    },
                    [&](Side& side) {
                        side.send("!", side.receive());
                        for (std::size_t i = 0; i < count; ++i) {
                            if (side.receive() != size) die("size");
                        }
                        side.send("!", 1);
                    });
                streams[key].push_back(static_cast<double>(kStreamBytes) / 1e6 / seconds);
            }
        }
    }
    for (const auto& [key, samples] : trips) {
        print("channel round trip " + key.first, key.second, samples, "us", false);
    }
    for (const auto& [key, samples] : streams) {
        print("channel one way " + key.first, key.second, samples, "MB/s", true);
    }
}
