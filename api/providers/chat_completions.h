// The protocol `chat_completions`: POST <base>/chat/completions. Pure.
#pragma once

#include "api/providers/codec.h"

namespace providers {

class ChatCompletionsCodec : public Codec {
  public:
    std::string path() const override { return "/chat/completions"; }
    std::string encode(const ModelRequest& request) const override;
    std::unique_ptr<Decoder> decoder() const override;
    std::vector<std::pair<std::string, std::string>> headers(const std::string& key) const override;
};

}  // namespace providers
