// Text of an answer on its way to the readers: pieces that come close after each other leave as
// one event, so that a fast model does not fill the readers' queues. Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "api/agents/loop.h"
#include "api/sessions/conversation.h"
#include "shared/clock.h"

namespace sessions {

inline constexpr shared::Milliseconds kDeltaPeriod{30};
inline constexpr std::size_t kDeltaBytes = 16 << 10;  // so much leaves at once

class DeltaPublisher : public std::enable_shared_from_this<DeltaPublisher> {
  public:
    DeltaPublisher(std::shared_ptr<Conversation> conversation, agents::Loop& loop)
        : conversation_(std::move(conversation)), loop_(loop) {}

    /// `type` is a constant: "text_delta", "thinking_delta". The first piece leaves at once.
    void add(const char* type, std::string_view text);
    /// What is held leaves now.
    void flush();

  private:
    void flush(const std::lock_guard<std::mutex>& lock);

    const std::shared_ptr<Conversation> conversation_;
    agents::Loop& loop_;
    std::mutex mutex_;
    const char* type_ = "";
    std::string text_;
    shared::TimePoint last_{};
    bool armed_ = false;
};

}  // namespace sessions
