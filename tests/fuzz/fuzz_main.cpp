// libFuzzer's side: `albedo-fuzz TARGET [libFuzzer's arguments]`.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/fuzz/targets.h"

namespace {
const fuzz::Target* chosen = nullptr;
}

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
    for (const auto& target : fuzz::kTargets)
        if (*count > 1 && std::strcmp((*arguments)[1], target.name) == 0) chosen = &target;
    if (chosen == nullptr) {
        std::fprintf(stderr, "usage: albedo-fuzz TARGET [CORPUS] [-max_total_time=N]; targets:");
        for (const auto& target : fuzz::kTargets) std::fprintf(stderr, " %s", target.name);
        std::fprintf(stderr, "\n");
        std::exit(2);
    }
    // The name is ours: libFuzzer would take it for a corpus.
    for (int i = 1; i + 1 < *count; ++i) (*arguments)[i] = (*arguments)[i + 1];
    --*count;
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    chosen->run({reinterpret_cast<const char*>(data), size});
    return 0;
}
