// The protocol `responses`: POST <base>/responses. Pure.
//
// The request carries the whole conversation (`store` is false), so nothing depends on what the
// provider kept of earlier ones.
#pragma once

#include "api/providers/codec.h"

namespace providers {

class ResponsesCodec : public Codec {
  public:
    std::string path() const override { return "/responses"; }
    std::string encode(const ModelRequest& request) const override;
    std::unique_ptr<Decoder> decoder() const override;
    std::vector<std::pair<std::string, std::string>> headers(const std::string& key) const override;
};

}  // namespace providers
