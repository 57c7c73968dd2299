// The protocol `anthropic`: POST <base>/messages. Pure.
//
// Roles alternate and the first is the user's, so neighbours of one role are joined into one
// message. Empty text blocks are refused there and therefore left out.
#pragma once

#include "api/providers/codec.h"

namespace providers {

inline constexpr int kAnthropicMaxTokens = 8192;  // the largest that all current models take

class AnthropicCodec : public Codec {
  public:
    std::string path() const override { return "/messages"; }
    std::string encode(const ModelRequest& request) const override;
    std::unique_ptr<Decoder> decoder() const override;
    std::vector<std::pair<std::string, std::string>> headers(const std::string& key) const override;
};

}  // namespace providers
