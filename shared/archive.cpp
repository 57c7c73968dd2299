#include "shared/archive.h"

#include <cereal/cereal.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/variant.hpp>
#include <cereal/types/vector.hpp>

#include "shared/control_messages.h"
#include "shared/messages.h"

namespace shared {

// Not in an unnamed namespace: cereal finds the functions below by the archives' own namespace.

class MessageOutput : public cereal::OutputArchive<MessageOutput, cereal::AllowEmptyClassElision> {
  public:
    MessageOutput() : OutputArchive(this) {}
    void write(const void* bytes, std::size_t size) {
        out_.append(static_cast<const char*>(bytes), size);
    }
    std::string take() { return std::move(out_); }

  private:
    std::string out_;
};

class MessageInput : public cereal::InputArchive<MessageInput, cereal::AllowEmptyClassElision> {
  public:
    explicit MessageInput(std::string_view bytes) : InputArchive(this), rest_(bytes) {}
    void read(void* bytes, std::size_t size) {
        if (size > rest_.size()) throw cereal::Exception("it is cut short");
        rest_.copy(static_cast<char*>(bytes), size);
        rest_.remove_prefix(size);
    }
    /// Every element takes at least a byte, so no honest size is over what remains.
    void check_size(cereal::size_type size) const {
        if (size > rest_.size()) throw cereal::Exception("a size is over what remains");
    }
    bool at_end() const { return rest_.empty(); }

  private:
    std::string_view rest_;
};

}  // namespace shared

CEREAL_SETUP_ARCHIVE_TRAITS(shared::MessageInput, shared::MessageOutput)

namespace shared {

// How cereal handles the leaves; found by argument-dependent lookup.

template <class Number>
requires std::is_arithmetic_v<Number>
void CEREAL_SAVE_FUNCTION_NAME(MessageOutput& archive, const Number& number) {
    archive.write(&number, sizeof number);
}
template <class Number>
requires(std::is_arithmetic_v<Number> &&
         !std::is_same_v<Number, bool>) void CEREAL_LOAD_FUNCTION_NAME(MessageInput& archive,
                                                                       Number& number) {
    archive.read(&number, sizeof number);
}
void CEREAL_LOAD_FUNCTION_NAME(MessageInput& archive, bool& value) {
    std::uint8_t byte = 0;  // any other byte in a bool would be undefined behaviour
    archive.read(&byte, 1);
    value = byte != 0;
}
template <class Data>
void CEREAL_SAVE_FUNCTION_NAME(MessageOutput& archive, const cereal::BinaryData<Data>& data) {
    archive.write(data.data, static_cast<std::size_t>(data.size));
}
template <class Data>
void CEREAL_LOAD_FUNCTION_NAME(MessageInput& archive, cereal::BinaryData<Data>& data) {
    archive.read(data.data, static_cast<std::size_t>(data.size));
}
template <class Size>
void CEREAL_SAVE_FUNCTION_NAME(MessageOutput& archive, const cereal::SizeTag<Size>& tag) {
    archive(static_cast<cereal::size_type>(tag.size));
}
template <class Size>
void CEREAL_LOAD_FUNCTION_NAME(MessageInput& archive, cereal::SizeTag<Size>& tag) {
    cereal::size_type size = 0;
    archive(size);
    archive.check_size(size);
    tag.size = static_cast<std::decay_t<Size>>(size);
}

template <class Archive, class Value>
void CEREAL_SERIALIZE_FUNCTION_NAME(Archive& archive, cereal::NameValuePair<Value>& pair) {
    archive(pair.value);
}

// The messages, field by field.

template <class Archive>
void serialize(Archive& a, HostReport& m) {
    a(m.state, m.step, m.detail, m.os, m.arch, m.home, m.hostname, m.user, m.python,
      m.python_version, m.digest, m.control_path, m.checked_wall_ms);
}
template <class Archive>
void serialize(Archive& a, Configure& m) {
    a(m.known, m.python);
}
template <class Archive>
void serialize(Archive& a, Probe& m) {
    a(m.call, m.deadline_ms, m.fresh);
}
template <class Archive>
void serialize(Archive& a, OpenKernel& m) {
    a(m.kernel, m.start, m.request);
}
template <class Archive>
void serialize(Archive& a, CloseKernel& m) {
    a(m.kernel);
}
template <class Archive>
void serialize(Archive& a, KernelFrame& m) {
    a(m.kernel, m.kind, m.seq, m.ack, m.payload);
}
template <class Archive>
void serialize(Archive& a, EndKernel& m) {
    a(m.call, m.deadline_ms, m.run);
}
template <class Archive>
void serialize(Archive& a, Browse& m) {
    a(m.call, m.deadline_ms, m.fresh, m.request);
}
template <class Archive>
void serialize(Archive& a, Cancel& m) {
    a(m.call);
}
template <class Archive>
void serialize(Archive& a, Ping& m) {
    a(m.call, m.deadline_ms);
}
template <class Archive>
void serialize(Archive& a, Fault& m) {
    a(m.call, m.deadline_ms, m.kind);
}
template <class Archive>
void serialize(Archive& a, Answer& m) {
    a(m.call, m.ok, m.code, m.message, m.json, m.report);
}
template <class Archive>
void serialize(Archive& a, HostChanged& m) {
    a(m.report);
}
template <class Archive>
void serialize(Archive& a, KernelOpened& m) {
    a(m.kernel, m.run);
}
template <class Archive>
void serialize(Archive& a, KernelClosed& m) {
    a(m.kernel, m.reason, m.detail);
}

template <class Archive>
void serialize(Archive& a, Welcome& m) {
    a(m.home, m.host, m.token, m.owner, m.port, m.started_wall_ms);
}
template <class Archive>
void serialize(Archive& a, ChannelOffer& m) {
    a(m.host, m.generation);
}
template <class Archive>
void serialize(Archive& a, AgentDown& m) {
    a(m.host, m.generation, m.cause, m.failed);
}
template <class Archive>
void serialize(Archive& a, ProcessInfo& m) {
    a(m.name, m.host, m.pid, m.state, m.since_wall_ms, m.restarts, m.generation, m.last_death,
      m.last_death_wall_ms, m.beat_age_ms, m.counters);
}
template <class Archive>
void serialize(Archive& a, Processes& m) {
    a(m.call, m.processes, m.more);
}
template <class Archive>
void serialize(Archive& a, Flight& m) {
    a(m.call, m.wall_ms, m.texts, m.more);
}
template <class Archive>
void serialize(Archive& a, Steered& m) {
    a(m.call, m.ok, m.message);
}
template <class Archive>
void serialize(Archive& a, WantHost& m) {
    a(m.host);
}
template <class Archive>
void serialize(Archive& a, SteerHost& m) {
    a(m.call, m.host, m.steering);
}
template <class Archive>
void serialize(Archive& a, AskProcesses& m) {
    a(m.call);
}
template <class Archive>
void serialize(Archive& a, AskFlight& m) {
    a(m.call, m.host);
}
template <class Archive>
void serialize(Archive& a, HandoverFailed& m) {
    a(m.host, m.generation);
}
template <class Archive>
void serialize(Archive& a, HideVariables& m) {
    a(m.names);
}

template <class Message>
std::string encode(const Message& message) {
    MessageOutput archive;
    archive(message);
    return archive.take();
}

template <class Message>
Result<Message> decode(std::string_view bytes) {
    Result<Message> message{Message()};
    try {
        MessageInput archive(bytes);
        archive(*message);
        if (!archive.at_end()) {
            message = Error{ErrorCode::protocol, "a message has bytes left over", {}};
        }
    } catch (const cereal::Exception& broken) {
        message = Error{
            ErrorCode::protocol, std::string("a message cannot be read: ") + broken.what(), {}};
    }
    return message;
}

template std::string encode(const ToAgent&);
template std::string encode(const FromAgent&);
template std::string encode(const ToChild&);
template std::string encode(const FromChild&);
template Result<ToAgent> decode(std::string_view);
template Result<FromAgent> decode(std::string_view);
template Result<ToChild> decode(std::string_view);
template Result<FromChild> decode(std::string_view);

}  // namespace shared
