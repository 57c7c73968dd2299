// What a cell asks of the daemon (`memory.append` and the like), as an interface: sessions number,
// keep and answer the calls; whoever implements this does them.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "shared/ids.h"
#include "shared/result.h"

namespace sessions {

struct KernelCall {
    shared::SessionId session;
    std::string workspace;
    std::string run_id;  // with `call`, the id under which it is applied once
    std::uint64_t call = 0;
    std::string method;
    nlohmann::json args;
};

class KernelCalls {
  public:
    using Answer = std::function<void(shared::Result<nlohmann::json>)>;
    virtual ~KernelCalls() = default;
    /// Called once per call and run of the api, after the call is in the store; again after a
    /// restart if no answer was kept, so the effect must be applied once by its id. On the store
    /// thread, without the Monitor; must not block: take it elsewhere. `answer` may be called from
    /// any thread that does not hold the Monitor, once.
    virtual void begin(KernelCall call, Answer answer) = 0;
};

}  // namespace sessions
