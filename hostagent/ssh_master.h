// A control master, spoken to directly on its socket: does it live, and end it.
//
// ssh -O would need a process per question and hangs on a stopped master; this asks with a
// deadline. The protocol is the one of OpenSSH's PROTOCOL.mux: packets of a u32 length, u32 type
// and body; both sides begin with hello (1, version 4); terminate is 0x10000005 with a request id.
#pragma once

#include <string>

#include "hostagent/event.h"

namespace hostagent {

enum class MasterState {
    absent,  // no socket, or nobody listens there
    answers,
    stuck,  // somebody listens and says nothing: stopped, or waiting for a dead network
};

inline constexpr shared::Milliseconds kMasterAnswers{1000};

asio::awaitable<MasterState> ask_master(std::string socket_path);

/// Asks the master to end; its riders end with it. Nothing if it does not answer.
asio::awaitable<void> end_master(std::string socket_path);

}  // namespace hostagent
