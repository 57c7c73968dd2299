#include "api/http/request_body.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace http {

using shared::Error;
using shared::ErrorCode;
using shared::Result;
using shared::TimePoint;

namespace {

constexpr std::size_t kMaxLineBytes = 256;  // a chunk's size with its extensions, or a trailer
constexpr std::size_t kMaxTrailerLines = 16;

class Reader {
  public:
    Reader(ClientSocket& socket, std::size_t limit, TimePoint deadline)
        : socket_(socket), limit_(limit), deadline_(deadline) {}

    Result<void> bytes(std::size_t count) {
        if (count > limit_ - body_.size())
            return Error{ErrorCode::too_large,
                         "the body is longer than " + std::to_string(limit_) + " bytes",
                         {}};
        while (count > 0) {
            if (auto more = wait_for_input(); !more) return more;
            const auto part = socket_.input().substr(0, count);
            body_.append(part);
            count -= part.size();
            socket_.take(part.size());
        }
        return {};
    }

    Result<void> chunks() {
        while (true) {
            auto line = take_line();
            if (!line) return std::move(line).error();
            std::size_t size = 0;
            const char* end = line->data() + line->size();
            const auto [stop, failed] = std::from_chars(line->data(), end, size, 16);
            if (failed != std::errc() || (stop != end && *stop != ';'))
                return Error{ErrorCode::invalid, "the body holds a broken chunk", {}};
            if (size == 0) return trailers();
            if (auto read = bytes(size); !read) return read;
            line = take_line();
            if (!line) return std::move(line).error();
            if (!line->empty())
                return Error{ErrorCode::invalid, "a chunk is longer than it says", {}};
        }
    }

    std::string take() { return std::move(body_); }

  private:
    Result<void> wait_for_input() {
        if (!socket_.input().empty()) return {};
        return fill();
    }
    Result<void> fill() {
        switch (socket_.fill(deadline_, 64 * 1024)) {
            case ClientSocket::Fill::more:
                return {};
            case ClientSocket::Fill::timed_out:
                return Error{ErrorCode::timed_out, "the body did not come in time", {}};
            case ClientSocket::Fill::ended:
                break;
        }
        return Error{ErrorCode::cancelled, "the client left", {}};
    }
    Result<std::string> take_line() {
        while (true) {
            const auto input = socket_.input();
            const auto end = input.find("\r\n");
            if (std::min(end, input.size()) > kMaxLineBytes)
                return Error{ErrorCode::invalid, "the body holds a broken chunk", {}};
            if (end != std::string_view::npos) {
                std::string line(input.substr(0, end));
                socket_.take(end + 2);
                return line;
            }
            if (auto more = fill(); !more) return std::move(more).error();
        }
    }
    Result<void> trailers() {
        for (std::size_t i = 0; i < kMaxTrailerLines; ++i) {
            auto line = take_line();
            if (!line) return std::move(line).error();
            if (line->empty()) return {};
        }
        return Error{ErrorCode::invalid, "the body has too many trailers", {}};
    }

    ClientSocket& socket_;
    std::size_t limit_;
    TimePoint deadline_;
    std::string body_;
};

}  // namespace

Result<std::string> read_body(ClientSocket& socket, const BodyFraming& framing, std::size_t limit,
                              TimePoint deadline) {
    Reader reader(socket, limit, deadline);
    auto read = framing.chunked ? reader.chunks() : reader.bytes(framing.length);
    if (!read) return std::move(read).error();
    return reader.take();
}

}  // namespace http
