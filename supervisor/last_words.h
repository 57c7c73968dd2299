// The newest bytes that a child wrote to its standard error, and nothing older. What a process
// says before it has a log, or instead of one: a missing library, an abort, a sanitizer's report.
#pragma once

#include <string>

#include "shared/unique_fd.h"

namespace supervisor {

class LastWords {
  public:
    /// Makes the pipe. Throws std::system_error.
    LastWords();

    /// For the child, as its descriptor 2; to be dropped here once it was spawned.
    int child_end() const { return writer_.get(); }
    void drop_child_end() { writer_.reset(); }
    /// Lent, non-blocking, for the loop.
    int reading_end() const { return reader_.get(); }

    /// Takes what is there, a bounded amount, never waits. False: the end of the stream.
    bool read_some();
    /// At most kLastWordsBytes, from the start of a line where something older was dropped.
    std::string text() const;

  private:
    shared::UniqueFd reader_;
    shared::UniqueFd writer_;
    std::string tail_;
    bool dropped_ = false;
};

}  // namespace supervisor
