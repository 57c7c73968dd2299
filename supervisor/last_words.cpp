#include "supervisor/last_words.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "supervisor/timing.h"

namespace supervisor {

LastWords::LastWords() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        throw std::system_error(errno, std::generic_category(), "pipe2");
    }
    reader_.reset(ends[0]);
    writer_.reset(ends[1]);
    // Only our end: a child's own writes stay ordinary ones.
    fcntl(reader_.get(), F_SETFL, O_NONBLOCK);
}

bool LastWords::read_some() {
    char piece[4096];
    for (int i = 0; i < 16; ++i) {
        const ssize_t got = read(reader_.get(), piece, sizeof piece);
        if (got < 0) return errno == EAGAIN || errno == EINTR;
        if (got == 0) return false;
        tail_.append(piece, static_cast<std::size_t>(got));
        if (tail_.size() > kLastWordsBytes) {
            tail_.erase(0, tail_.size() - kLastWordsBytes);
            dropped_ = true;
        }
    }
    return true;
}

std::string LastWords::text() const {
    const auto line = dropped_ ? tail_.find('\n') : std::string::npos;
    return line == std::string::npos ? tail_ : tail_.substr(line + 1);
}

}  // namespace supervisor
