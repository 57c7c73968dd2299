// Tells when what was connected may not be any more: the machine slept (its clock jumped) or one of
// its addresses changed. Owns a timerfd and a netlink socket; knows no host.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>

#include "hostagent/event.h"

namespace hostagent {

class NetworkWatch {
  public:
    /// `changed` is called from the loop, at most once per kSettle. Where the system offers neither
    /// descriptor nothing is ever told, and keep-alives have to do.
    NetworkWatch(const asio::any_io_executor& executor, std::function<void()> changed);

    static constexpr shared::Milliseconds kSettle{200};  // one change is many messages

  private:
    void arm_clock();
    void wait_clock();
    void wait_addresses();
    void tell();

    asio::posix::stream_descriptor clock_;
    asio::posix::stream_descriptor addresses_;
    asio::steady_timer settle_;
    std::function<void()> changed_;
    bool settling_ = false;
};

}  // namespace hostagent
