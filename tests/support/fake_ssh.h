// A world with hosts in it, for tests: an `ssh` on a PATH of its own that runs commands here under
// another HOME, and fails in the ways hosts fail. Its state is files in its folder, so that a test
// changes the world while an agent runs.
//
//   box       works                     old     has a python3 that prints 3.9 and exits 0
//   locked    Permission denied         shut    Connection refused
//   noisy     a login shell that greets, and a megabyte of noise before the answer
//   down      works, unless the file `down` is there: Operation timed out
//
// Every call is a line in `log`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace support {

class FakeSsh {
  public:
    /// Made in `folder`, which must be empty and outlive it.
    explicit FakeSsh(const std::filesystem::path& folder);

    std::filesystem::path home() const { return folder_ / "remote-home"; }
    std::vector<std::string> environment() const;  // for an agent: PATH and HOME
    std::string log() const;
    std::size_t count(const std::string& word) const;  // lines of the log that hold it
    void touch(const std::string& name) const;
    void remove(const std::string& name) const;

  private:
    std::filesystem::path folder_;
};

}  // namespace support
