#include "api/sessions/kernel_link.h"

#include <utility>

#include "api/sessions/kernel_json.h"
#include "shared/frame_codec.h"
#include "shared/log.h"

namespace sessions {

using nlohmann::json;
using shared::FrameKind;
using shared::Monotonic;

namespace {
constexpr std::size_t kOutputHead = 24;  // cell id 16, offset u64

std::uint64_t big_endian(const std::string& bytes, std::size_t at) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 8; ++i)
        value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
    return value;
}
}  // namespace

KernelLink::KernelLink(const LinkWorld& world, KernelRecord record, Delegate& delegate)
    : world_(world),
      record_(std::move(record)),
      delegate_(delegate),
      machine_(record_.confirmed, record_.received, world.grace) {}

KernelLink::~KernelLink() {
    ALBEDO_CHECK(kernel_ == 0);
}

std::string KernelLink::run_folder() const {
    if (!record_.run.empty()) return record_.run;
    if (record_.host == shared::kLocalHost) return world_.home + "/run/" + record_.run_id;
    auto* host = world_.hosts.find({}, record_.host);
    if (host == nullptr || host->report().home.empty()) return {};
    return host->report().home + "/.albedo-remote/run/" + record_.run_id;
}

void KernelLink::want() {
    apply(machine_.want(Monotonic::now()));
}
void KernelLink::recover() {
    apply(machine_.recover(Monotonic::now()));
}
void KernelLink::news() {
    apply(machine_.news(Monotonic::now()));
}

void KernelLink::channel_lost() {
    kernel_ = 0;  // the numbers and boot slots went with the channel
    holds_boot_ = false;
    if (!left_) delegate_.detached();
    apply(machine_.channel_lost(Monotonic::now()));
}

void KernelLink::leave() {
    left_ = true;
    cut(true);
}

void KernelLink::apply(const LinkActions& actions) {
    if (left_) return;
    if (actions.close) cut(true);
    for (const std::uint64_t seq : actions.send)
        if (const auto* frame = machine_.frame(seq)) write(*frame);
    if (actions.attach) begin_attempt(actions.start);
    if (actions.changed) delegate_.link_changed();
    arm();
    if (actions.failed) delegate_.failed(machine_.detail());
    if (actions.gone) delegate_.gone(machine_.detail());
}

void KernelLink::begin_attempt(bool start) {
    auto* host = world_.hosts.need({}, record_.host);
    if (host == nullptr || !host->up()) {
        apply(machine_.channel_lost(Monotonic::now()));  // its channel_up brings news()
        return;
    }
    if (!start) {
        open(false);
        return;
    }
    host->acquire_boot([weak = weak_from_this()] {
        auto self = weak.lock();
        return self && !self->left_ && self->open(true);
    });
}

/// False when the attempt is not wanted any more.
bool KernelLink::open(bool start) {
    auto* host = world_.hosts.find({}, record_.host);
    if (kernel_ != 0 || host == nullptr || machine_.state() == LinkState::attached) return false;
    shared::OpenKernel request;
    request.start = start;
    json body;
    if (start) {
        body = {{"run_id", record_.run_id},          {"folder", record_.folder},
                {"session", record_.session.text()}, {"token", record_.token},
                {"grace", world_.grace.count()},     {"login", true},
                {"settings", json::object()}};
    } else {
        body = {{"run", run_folder()}};
    }
    body["attach"] = attach_request();
    request.request = dump(body);
    kernel_ = host->attach(*this);
    request.kernel = kernel_;
    if (kernel_ == 0 || !host->send(request)) {
        if (kernel_ != 0) host->detach(std::exchange(kernel_, 0));
        return false;  // the channel is breaking: its end is told to all
    }
    holds_boot_ = start;
    return true;
}

json KernelLink::attach_request() {
    const auto attempt =
        std::chrono::duration_cast<std::chrono::microseconds>(Monotonic::now().time_since_epoch());
    return {{"token", record_.token},        {"owner", world_.owner},
            {"attempt", attempt.count()},    {"ack", machine_.take_ack()},
            {"grace", world_.grace.count()}, {"credits", delegate_.credits()}};
}

void KernelLink::cut(bool tell_agent) {
    auto* host = world_.hosts.find({}, record_.host);
    const bool had = kernel_ != 0;
    if (had && host != nullptr) {
        if (tell_agent) (void)host->send(shared::CloseKernel{kernel_});
        host->detach(kernel_);
    }
    kernel_ = 0;
    if (std::exchange(holds_boot_, false) && host != nullptr) host->release_boot();
    if (had && !left_) delegate_.detached();
}

void KernelLink::opened(const std::string& run) {
    if (record_.run.empty()) record_.run = run;
    apply(machine_.opened(Monotonic::now()));
}

void KernelLink::closed(shared::CloseReason reason, const std::string& detail) {
    cut(false);
    apply(machine_.closed(Monotonic::now(), reason, detail));
}

void KernelLink::frame(shared::KernelFrame frame) {
    const auto now = Monotonic::now();
    if (machine_.state() == LinkState::attached && frame.ack != 0) {
        if (!machine_.acknowledged(frame.ack))
            return apply(machine_.drop(now, "the kernel acknowledged what was never sent"));
        for (const std::uint64_t call : machine_.take_answered()) delegate_.answered(call);
    }
    switch (static_cast<FrameKind>(frame.kind)) {
        case FrameKind::hello:
            return hello(frame.payload);
        case FrameKind::control:
            return control(frame.seq, frame.payload);
        case FrameKind::output: {
            if (frame.payload.size() < kOutputHead)
                return apply(machine_.drop(now, "the kernel sent a short output frame"));
            const std::uint64_t offset = big_endian(frame.payload, 16);
            auto payload = std::make_shared<const std::string>(std::move(frame.payload));
            return delegate_.output(payload->substr(0, 16), offset, payload, kOutputHead);
        }
        case FrameKind::page:
            return delegate_.page(std::move(frame.payload));
        case FrameKind::query:
            return delegate_.query(frame.payload);
        case FrameKind::refused: {
            auto reason = parse_kernel_json(frame.payload);
            cut(true);
            return apply(
                machine_.refused(now, reason && text_of(*reason, "reason") == "older attempt"));
        }
        case FrameKind::superseded: {
            auto body = parse_kernel_json(frame.payload);
            cut(true);
            return apply(machine_.superseded(now, body && text_of(*body, "owner") != world_.owner));
        }
        default:
            return;  // ack carries nothing else; others are news to us
    }
}

void KernelLink::hello(const std::string& payload) {
    const auto now = Monotonic::now();
    auto hello = parse_kernel_json(payload);
    const std::int64_t ack = hello ? number_of(*hello, "ack", -1) : -1;
    if (ack < 0) return apply(machine_.drop(now, "the kernel's first words were not understood"));
    digest_ = text_of(*hello, "digest");
    keeper_pid_ = number_of(*hello, "pid");
    auto* host = world_.hosts.find({}, record_.host);
    if (std::exchange(holds_boot_, false) && host != nullptr) host->release_boot();
    const LinkActions actions = machine_.hello(now, static_cast<std::uint64_t>(ack));
    if (machine_.state() == LinkState::attached && !std::exchange(record_.confirmed, true))
        delegate_.link_confirmed();
    apply(actions);
    for (const std::uint64_t call : machine_.take_answered()) delegate_.answered(call);
    if (machine_.state() == LinkState::attached) delegate_.hello(*hello);
}

void KernelLink::control(std::uint64_t seq, const std::string& payload) {
    const auto now = Monotonic::now();
    if (machine_.state() != LinkState::attached)
        return apply(machine_.drop(now, "the kernel spoke before its hello"));
    auto body = parse_kernel_json(payload);
    if (!body) {
        shared::log_warning("kernel broke the rules",
                            {{"session", record_.session.text()}, {"why", body.error().message}});
        return apply(
            machine_.drop(now, "the kernel sent what is not JSON: " + body.error().message));
    }
    const FrameNumber number{machine_.received_seq(), seq};
    switch (machine_.received(seq)) {
        case Receipt::replay:
            return;
        case Receipt::gap:
            return apply(machine_.drop(now, "frames of the kernel are missing"));
        case Receipt::fresh:
            return delegate_.control(number, *body);
    }
}

void KernelLink::write(const KernelLinkMachine::Frame& frame) {
    auto* host = world_.hosts.find({}, record_.host);
    if (kernel_ == 0 || host == nullptr) return;
    shared::KernelFrame out;
    out.kernel = kernel_;
    out.kind = static_cast<std::uint8_t>(FrameKind::control);
    out.seq = frame.seq;
    out.ack = machine_.take_ack();
    out.payload = frame.payload;
    (void)host->send(out);  // what does not leave is sent again after the next attach
}

shared::Result<void> KernelLink::push(const json& frame, std::uint64_t call, std::string label) {
    std::string payload = dump(frame);
    if (payload.size() > shared::kMaxFramePayloadBytes)
        return shared::Error{shared::ErrorCode::too_large, "more than fits into one frame",
                             record_.host};
    if (!machine_.has_room(payload.size()))
        return shared::Error{shared::ErrorCode::overloaded, "too much waits for this kernel",
                             record_.host};
    const std::uint64_t seq = machine_.push(std::move(payload), call, std::move(label));
    if (seq != 0) write(*machine_.frame(seq));
    return {};
}

bool KernelLink::send_now(std::uint8_t kind, const json& payload) {
    auto* host = world_.hosts.find({}, record_.host);
    if (machine_.state() != LinkState::attached || kernel_ == 0 || host == nullptr) return false;
    shared::KernelFrame out;
    out.kernel = kernel_;
    out.kind = kind;
    out.ack = machine_.take_ack();
    if (!payload.is_null()) out.payload = dump(payload);
    return host->send(out).ok();
}

void KernelLink::stored(std::uint64_t seq) {
    record_.received = std::max(record_.received, seq);
    machine_.stored(Monotonic::now(), seq);
    arm();
}

void KernelLink::store_failed(const std::string& why) {
    apply(machine_.store_failed(Monotonic::now(), why));
}

void KernelLink::arm() {
    const auto next = machine_.next_tick();
    if (left_ || !next || (armed_ && *armed_ <= *next)) return;
    armed_ = next;
    world_.loop.at(*next, [weak = weak_from_this(), when = *next] {
        auto self = weak.lock();
        if (!self) return;
        auto lock = self->world_.monitor.lock();
        if (self->left_) return;
        if (self->armed_ == when) self->armed_.reset();
        const auto now = Monotonic::now();
        if (self->machine_.ack_due(now))
            self->send_now(static_cast<std::uint8_t>(FrameKind::ack), nullptr);
        self->apply(self->machine_.tick(now));
    });
}

}  // namespace sessions
