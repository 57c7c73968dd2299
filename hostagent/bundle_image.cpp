#include "hostagent/bundle_image.h"

#include "bundle_image.inc"

namespace hostagent {

std::string_view bundle_tar() {
    return {reinterpret_cast<const char*>(kBundleTar), sizeof kBundleTar};
}

std::string bundle_digest() {
    return kBundleDigest;
}

}  // namespace hostagent
