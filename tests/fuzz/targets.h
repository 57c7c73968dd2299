// What is fuzzed: every parser that reads bytes somebody else wrote. A target takes any bytes, and
// breaks an ALBEDO_CHECK when what was made of them breaks a promise of the parser's header.
//
// One program has them all. Under clang it is a libFuzzer program (fuzz_main.cpp, `./dev fuzz`);
// with any compiler it is a test that replays the seeds and what comes of them by cutting and
// flipping (replay_main.cpp).
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace fuzz {

void wire(std::string_view bytes);  // channel and control messages, bridge frames
void ssh(std::string_view bytes);   // config files, the answer of `ssh -G`, ssh's stderr
void host_answers(
    std::string_view bytes);  // what our programs on a host answer, and what is not them
void http_request(std::string_view bytes);  // head, query, body framing, chunks
void http_json(std::string_view bytes);     // JSON bodies and their fields
void provider(std::string_view bytes);      // event streams of the three protocols, error answers
void kernel(std::string_view bytes);        // JSON frames of a kernel
void files(std::string_view bytes);         // config.json, skills, locations

struct Target {
    const char* name;
    void (*run)(std::string_view bytes);
};

inline constexpr std::array<Target, 8> kTargets{{{"wire", wire},
                                                 {"ssh", ssh},
                                                 {"host_answers", host_answers},
                                                 {"http_request", http_request},
                                                 {"http_json", http_json},
                                                 {"provider", provider},
                                                 {"kernel", kernel},
                                                 {"files", files}}};

/// The first byte of an input chooses among `count` ways to read the rest; seeds spell it "0", "1",
/// ...
inline std::size_t choice(std::string_view& bytes, std::size_t count) {
    if (bytes.empty()) return 0;
    const auto first = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    return (first - static_cast<std::size_t>('0')) % count;
}

}  // namespace fuzz
