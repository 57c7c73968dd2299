// Finds the line that opens an answer in a stream that may begin with anything: greetings, control
// codes, a megabyte of them. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hostagent {

class MarkerScanner {
  public:
    /// `marker` is random, and stands between two line ends.
    explicit MarkerScanner(const std::string& marker) : line_("\n" + marker + "\n") {}

    /// What follows the marker in `piece`, once; nothing as long as it has not come.
    std::optional<std::string_view> feed(std::string_view piece);
    /// The newest bytes before the marker, at most kNoiseBytes.
    const std::string& noise() const { return noise_; }

    static constexpr std::size_t kNoiseBytes = 1024;

  private:
    std::string line_;
    std::string noise_;
};

}  // namespace hostagent
