#include "cli/process_memory.h"

#include <fstream>
#include <string>

namespace cli {

std::optional<std::int64_t> pss_kib(int pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/smaps_rollup");
    for (std::string word; file >> word;) {
        std::int64_t value = 0;
        if (word == "Pss:" && file >> value) return value;
    }
    return std::nullopt;
}

}  // namespace cli
