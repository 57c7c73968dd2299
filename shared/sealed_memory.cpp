#include "shared/sealed_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/interprocess/mapped_region.hpp>
#include <cerrno>
#include <system_error>

namespace shared {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

/// What mapped_region asks of a thing it maps.
class Mappable {
  public:
    explicit Mappable(int fd) : fd_(fd) {}
    boost::interprocess::mapping_handle_t get_mapping_handle() const { return {fd_, false}; }

  private:
    int fd_;
};

}  // namespace

struct SealedMemory::Region {
    boost::interprocess::mapped_region mapping;
};

UniqueFd create_sealed_memory(const char* name, std::size_t bytes) {
    UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) < 0 ||
        ::fcntl(fd.get(), F_ADD_SEALS, kSeals) < 0) {
        throw std::system_error(errno, std::generic_category(), name);
    }
    return fd;
}

Result<SealedMemory> SealedMemory::map(int fd, std::size_t bytes) {
    struct stat found {};
    const int seals = ::fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & kSeals) != kSeals || ::fstat(fd, &found) < 0 ||
        found.st_size != static_cast<off_t>(bytes)) {
        return Error{ErrorCode::protocol, "a descriptor is not the sealed memory it should be", {}};
    }
    try {
        return SealedMemory(std::make_unique<Region>(
            Region{{Mappable(fd), boost::interprocess::read_write, 0, bytes}}));
    } catch (const boost::interprocess::interprocess_exception& refused) {
        return Error{ErrorCode::failed, std::string("shared memory: ") + refused.what(), {}};
    }
}

SealedMemory::SealedMemory(std::unique_ptr<Region> region) : region_(std::move(region)) {}
SealedMemory::SealedMemory(SealedMemory&&) noexcept = default;
SealedMemory& SealedMemory::operator=(SealedMemory&&) noexcept = default;
SealedMemory::~SealedMemory() = default;

void* SealedMemory::data() const {
    return region_->mapping.get_address();
}

}  // namespace shared
