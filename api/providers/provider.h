// A model that can be asked: the one interface turns know.
#pragma once

#include <memory>

#include "api/providers/cancel_token.h"
#include "api/providers/config.h"
#include "api/providers/model_event.h"
#include "api/providers/model_request.h"

namespace providers {

class Provider {
  public:
    virtual ~Provider() = default;
    /// One attempt, without retries: those are the turn's (retry.h, turn_machine.h). Blocks until
    /// the answer is whole, has failed, or is cancelled. The sink is called while it runs and never
    /// after. Any thread; several attempts may run beside each other.
    virtual Outcome run(const ModelRequest& request, EventSink& sink, CancelToken& cancel) = 0;
};

/// The provider of a profile. Reads the key anew at each run, so a changed key file counts at once.
/// Errors: invalid (URL).
shared::Result<std::unique_ptr<Provider>> make_provider(const Profile& profile,
                                                        const Environment& environment);

}  // namespace providers
