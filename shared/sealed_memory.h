// Memory shared by two processes through a descriptor: a memfd sealed against resizing, so that
// touching it can never fault, mapped with Boost.Interprocess. It has no name and cannot go stale.
// Knows nothing of what stands in it.
#pragma once

#include <cstddef>
#include <memory>

#include "shared/result.h"
#include "shared/unique_fd.h"

namespace shared {

/// A memfd of `bytes` zeros with F_SEAL_SHRINK, F_SEAL_GROW and F_SEAL_SEAL. Throws
/// std::system_error.
UniqueFd create_sealed_memory(const char* name, std::size_t bytes);

class SealedMemory {
  public:
    /// Maps it whole, for reading and writing; the descriptor stays the caller's. Errors: protocol
    /// when it is not such memory of just that size.
    static Result<SealedMemory> map(int fd, std::size_t bytes);
    SealedMemory(SealedMemory&&) noexcept;
    SealedMemory& operator=(SealedMemory&&) noexcept;
    ~SealedMemory();

    void* data() const;

  private:
    struct Region;
    explicit SealedMemory(std::unique_ptr<Region> region);
    std::unique_ptr<Region> region_;
};

}  // namespace shared
