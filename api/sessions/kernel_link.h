// The live link to one kernel: carries out what KernelLinkMachine says over the host's channel.
// Owns the attempt under way (its number on the channel, its place among the host's boots); what
// the frames mean is the delegate's matter, and so is everything that is stored.
//
// Everything here wants the Monitor held. Held by shared_ptr, because timers and boot slots may
// outlast it.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "api/agents/hosts.h"
#include "api/sessions/kernel_link_machine.h"
#include "api/store/kernels_table.h"

namespace sessions {

using KernelRecord = store::KernelRow;

/// What all links share.
struct LinkWorld {
    agents::Monitor& monitor;
    agents::Loop& loop;
    agents::Hosts& hosts;
    std::string owner;  // names this daemon to kernels
    std::string home;   // $ALBEDO_HOME
    std::chrono::seconds grace{3600};
};

/// A received frame's number, and the one it follows.
struct FrameNumber {
    std::uint64_t before = 0;
    std::uint64_t seq = 0;
};

class KernelLink : public agents::Attachment, public std::enable_shared_from_this<KernelLink> {
  public:
    /// Called with the Monitor held; none may destroy the link.
    class Delegate {
      public:
        virtual ~Delegate() = default;
        virtual void link_changed() = 0;
        /// First hello of this kernel, or of this run of the api: `record()` is to be stored.
        virtual void link_confirmed() = 0;
        virtual void hello(const nlohmann::json& hello) = 0;
        /// A control frame, in order, each once. To be stored; then call stored(seq).
        virtual void control(FrameNumber number, const nlohmann::json& frame) = 0;
        /// Bytes follow `skip` bytes of head in `payload`.
        virtual void output(const std::string& cell_bytes, std::uint64_t offset,
                            std::shared_ptr<const std::string> payload, std::size_t skip) = 0;
        virtual void page(std::string payload) = 0;
        /// The answer to a query frame.
        virtual void query(const std::string& payload) = 0;
        virtual void answered(std::uint64_t call) = 0;
        /// The kernel is not there any more; proved.
        virtual void gone(const std::string& detail) = 0;
        /// It could not be started; nothing ran.
        virtual void failed(const std::string& detail) = 0;
        /// The attachment ended: what was asked over it gets no answer.
        virtual void detached() = 0;
        /// Windows of output to ask for with the next attach: [{cell, from, until}].
        virtual nlohmann::json credits() = 0;
    };

    KernelLink(const LinkWorld& world, KernelRecord record, Delegate& delegate);
    ~KernelLink() override;

    LinkState state() const { return machine_.state(); }
    const KernelLinkMachine& machine() const { return machine_; }
    const KernelRecord& record() const { return record_; }
    /// The run directory as far as it is known or can be told from the host's home; else empty.
    std::string run_folder() const;
    const std::string& digest() const { return digest_; }
    std::int64_t keeper_pid() const { return keeper_pid_; }

    void want();
    void recover();
    void news();
    void channel_lost();
    /// Cuts the attachment and stops trying; the kernel lives on. The delegate hears no more.
    void leave();

    /// Numbers and sends a control frame, or keeps it for the next attachment.
    /// Errors: overloaded at the outbox's bound.
    shared::Result<void> push(const nlohmann::json& frame, std::uint64_t call = 0,
                              std::string label = {});
    bool retract(const std::string& label) { return machine_.retract(label); }
    /// A frame that belongs to this attachment; false when there is none.
    bool send_now(std::uint8_t kind, const nlohmann::json& payload);
    void stored(std::uint64_t seq);
    /// A frame's effect could not be kept: nothing after it counts, the kernel sends all again.
    void store_failed(const std::string& why);

    // agents::Attachment
    void opened(const std::string& run) override;
    void frame(shared::KernelFrame frame) override;
    void closed(shared::CloseReason reason, const std::string& detail) override;

  private:
    void apply(const LinkActions& actions);
    void begin_attempt(bool start);
    bool open(bool start);
    void cut(bool tell_agent);
    void arm();
    void hello(const std::string& payload);
    void control(std::uint64_t seq, const std::string& payload);
    void write(const KernelLinkMachine::Frame& frame);
    nlohmann::json attach_request();

    const LinkWorld& world_;
    KernelRecord record_;
    Delegate& delegate_;
    KernelLinkMachine machine_;
    std::uint32_t kernel_ = 0;  // the attempt's number on the channel; 0: none
    bool holds_boot_ = false;
    bool left_ = false;
    std::optional<TimePoint> armed_;
    std::string digest_;
    std::int64_t keeper_pid_ = 0;
};

}  // namespace sessions
