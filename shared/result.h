// What a call that may fail returns: the value, or an Error that says what was tried, and where.
//
// Expected failures travel as Result<T>; faults (disk gone, cannot spawn) are thrown as
// std::system_error; our own bugs end the process through ALBEDO_CHECK, in release builds too.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace shared {

/// The kinds of failure callers tell apart. api/http turns them into statuses by one table.
enum class ErrorCode {
    invalid,       // malformed input, refused before anything was done
    unauthorized,  // no token, or a wrong one
    forbidden,     // right token perhaps, but not from here (Host, Origin)
    not_found,
    conflict,     // same id and other intent, busy, already there
    expired,      // was there once, or an id too old to judge
    too_large,    // beyond a written limit
    unsupported,  // the host or the peer cannot do this
    needs_auth,   // a person has to sign in to the host
    unreachable,  // the host did not answer
    gone,         // the host answered: it is not there any more
    overloaded,   // a bulkhead or a queue is full; try later
    unavailable,  // a part of the daemon is not up just now
    timed_out,    // the call's deadline passed; its effect is unknown unless said otherwise
    cancelled,
    protocol,  // a peer broke the rules
    storage,   // the disk refused: full, read-only, locked
    failed,    // anything else, in words
};

/// The code as it stands in JSON and logs, for instance "needs_auth".
const char* to_string(ErrorCode code);

struct Error {
    ErrorCode code = ErrorCode::failed;
    std::string message;  // one sentence for a person: what was tried, on what, what to do next
    std::string host;     // the host it is about; empty if none
};

template <class T>
class [[nodiscard]] Result {
  public:
    Result(T value) : content_(std::in_place_index<0>, std::move(value)) {}
    Result(Error error) : content_(std::in_place_index<1>, std::move(error)) {}

    bool ok() const { return content_.index() == 0; }
    explicit operator bool() const { return ok(); }

    /// The value; a bug of the caller's, and the end of the process, if there is none.
    T& value() & { return std::get<0>(content_); }
    const T& value() const& { return std::get<0>(content_); }
    T&& value() && { return std::get<0>(std::move(content_)); }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T&& operator*() && { return std::move(*this).value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }

    const Error& error() const& { return std::get<1>(content_); }
    Error&& error() && { return std::get<1>(std::move(content_)); }

  private:
    std::variant<T, Error> content_;
};

/// A call that gives nothing but may fail.
template <>
class [[nodiscard]] Result<void> {
  public:
    Result() = default;
    Result(Error error) : error_(std::move(error)) {}

    bool ok() const { return !error_; }
    explicit operator bool() const { return ok(); }
    const Error& error() const& { return *error_; }
    Error&& error() && { return std::move(*error_); }

  private:
    std::optional<Error> error_;
};

[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace shared

/// Ends the process when our own reasoning was wrong; the supervisor starts it anew.
#define ALBEDO_CHECK(condition) \
    ((condition) ? void(0) : ::shared::check_failed(#condition, __FILE__, __LINE__))
