// One provider protocol as two pure translations: a ModelRequest to JSON, and the stream's payloads
// to ModelEvents. Codecs know neither sockets nor keys.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/providers/model_event.h"
#include "api/providers/model_request.h"

namespace providers {

// Bounds of one answer: far over what any model writes, so that a broken or hostile provider costs
// memory of this size and no more.
inline constexpr std::size_t kMaxAnswerTextBytes = 8 << 20;
inline constexpr std::size_t kMaxCallArgumentsBytes = 2 << 20;
inline constexpr std::size_t kMaxCallsPerAnswer = 64;

/// Reads one answer's stream. After a StreamError or Completed nothing more comes out.
class Decoder {
  public:
    virtual ~Decoder() = default;
    /// One server-sent event: its name (may be empty) and data.
    std::vector<ModelEvent> feed(std::string_view name, std::string_view data);
    /// The stream ended: nothing if the answer was whole, else a StreamError (retryable).
    std::vector<ModelEvent> end();

  protected:
    virtual void read(std::string_view name, std::string_view data) = 0;
    /// At the stream's end: emit Completed here if the protocol allows for an end without a mark.
    virtual void read_end() {}

    void emit(ModelEvent event);
    void text(std::string delta);
    void reasoning(std::string delta);
    void fail(std::string code, std::string message, bool retryable);
    /// `key` tells an answer's calls apart; the first use starts a call. Index of the call, or -1
    /// when the stream has failed.
    int call(const std::string& key, const std::string& call_id, const std::string& name);
    void call_arguments(int index, const std::string& delta);
    /// Ends a call once; `whole` replaces the pieces if it is not empty.
    void call_done(int index, const std::string& whole);
    void complete(const std::string& stop);
    bool finished() const { return finished_; }
    bool has_text() const { return text_bytes_ > 0; }
    std::size_t calls() const { return calls_.size(); }

  private:
    struct Call {
        ToolCallDone so_far;
        bool started = false;
        bool done = false;
    };
    std::vector<ModelEvent> out_;
    std::vector<Call> calls_;
    std::map<std::string, int> call_keys_;
    std::size_t text_bytes_ = 0;
    bool finished_ = false;
};

class Codec {
  public:
    virtual ~Codec() = default;
    virtual std::string path() const = 0;  // after the base URL
    virtual std::string encode(const ModelRequest& request) const = 0;
    virtual std::unique_ptr<Decoder> decoder() const = 0;
    /// The headers that carry the key, and those the protocol demands.
    virtual std::vector<std::pair<std::string, std::string>> headers(
        const std::string& key) const = 0;
};

/// Whether an error's code or type, in any protocol's words, means "try again later".
bool is_passing_trouble(std::string_view code);

}  // namespace providers
