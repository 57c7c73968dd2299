// The profile `demo`: no model and no account, yet a real turn. Scripted, it runs three cells in
// the session's kernel, and says in words what came back, so that a new installation shows at once
// whether kernel, persistence and output work. Pure; pauses nowhere.
#pragma once

#include "api/providers/provider.h"

namespace providers {

class DemoProvider : public Provider {
  public:
    Outcome run(const ModelRequest& request, EventSink& sink, CancelToken& cancel) override;
};

}  // namespace providers
