// The daemon's own machine: nothing stands in front of a command, and no shell is in between.
#include "hostagent/transport.h"

namespace hostagent {

namespace {

class LocalTransport final : public Transport {
  public:
    asio::awaitable<Launch> launch(Words words, Way) override { co_return Launch{words}; }
    std::optional<Verdict> failure(const Outcome&) const override { return std::nullopt; }
    bool another_way(const Launch&, const Outcome&) override { return false; }
    asio::awaitable<void> worked() override { co_return; }
    asio::awaitable<void> abandon() override { co_return; }
    asio::awaitable<void> stop() override { co_return; }
    bool sign_in_changed() override { return false; }
    Words find_python(const std::string& marker) const override {
        return loader("python3", marker);
    }
    // PATH may be another one than when the path was found: the name decides, each time.
    std::string python(const std::string&) const override { return "python3"; }
    bool is_local() const override { return true; }
};

}  // namespace

std::unique_ptr<Transport> local_transport() {
    return std::make_unique<LocalTransport>();
}

}  // namespace hostagent
