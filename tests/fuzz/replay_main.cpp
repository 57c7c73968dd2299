// `fuzz_replay FOLDER`: each target reads the seeds in FOLDER/TARGET, and what comes of them by
// cutting, flipping, doubling. The same inputs in each run; a finding ends the process, which says
// where it was.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/targets.h"

namespace {

constexpr int kChangesPerSeed = 400;

char position[512] = "before the first input\n";

extern "C" void tell_position(int signal) {
    (void)!::write(STDERR_FILENO, position, std::strlen(position));
    ::signal(signal, SIG_DFL);
    ::raise(signal);
}

std::string changed(std::string text, std::mt19937& random) {
    const auto below = [&](std::size_t limit) { return limit == 0 ? 0 : random() % limit; };
    const auto at = below(text.size());
    switch (below(5)) {
        case 0:
            text.resize(at);
            break;
        case 1:
            if (!text.empty()) text[at] = static_cast<char>(random());
            break;
        case 2:
            text.erase(at, below(8));
            break;
        case 3:
            text.insert(at, text.substr(below(text.size()), below(64)));
            break;
        default:
            text.insert(at, 1 + below(200), "\"\\\n\r\t {[:,-9\0\xff"[below(14)]);
    }
    return text;
}

int replay(const fuzz::Target& target, const std::filesystem::path& folder) {
    std::vector<std::filesystem::path> seeds;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
        seeds.push_back(entry.path());
    std::sort(seeds.begin(), seeds.end());
    int runs = 0;
    for (const auto& file : seeds) {
        std::ifstream in(file, std::ios::binary);
        const std::string seed((std::istreambuf_iterator<char>(in)), {});
        std::mt19937 random(1);
        std::string text = seed;
        for (int change = 0; change <= kChangesPerSeed; ++change, ++runs) {
            std::snprintf(position, sizeof position, "target %s, seed %s, change %d\n", target.name,
                          file.c_str(), change);
            target.run(text);
            // A few changes on top of each other, then from the seed again.
            text = changed(change % 4 == 0 ? seed : std::move(text), random);
        }
    }
    std::printf("%s: %zu seeds, %d inputs\n", target.name, seeds.size(), runs);
    return runs;
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 2) {
        std::fprintf(stderr, "usage: fuzz_replay FOLDER\n");
        return 2;
    }
    for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE}) ::signal(signal, tell_position);
    int empty = 0;
    for (const auto& target : fuzz::kTargets)
        if (replay(target, std::filesystem::path(arguments[1]) / target.name) == 0) ++empty;
    return empty == 0 ? 0 : 1;
}
