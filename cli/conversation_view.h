// Events of a session's stream as a person reads them: the model's words as they come, each cell's
// code, output and value, notes, and how turns end. Also where a stream goes on after a break.
#pragma once

#include <functional>
#include <string>

#include "cli/client.h"
#include "cli/sessions.h"

namespace cli {

class ConversationView {
  public:
    /// With `live`, the output of a cell is shown while it runs, over a connection of its own.
    ConversationView(const std::filesystem::path& home, Session session, bool live);

    /// Prints one event. False: whoever reads standard output has gone.
    bool show(const Json& event);

  private:
    void text(const std::string& words);
    void call(const Json& event);
    void result(const Json& event);
    bool follow(const std::string& cell);
    void line(const std::string& words);
    void write(const std::string& words);

    std::filesystem::path home_;
    Session session_;
    bool live_;
    bool line_open_ = false;
    bool reader_gone_ = false;
    std::string streamed_;  // of the answer that is coming
    std::string phase_;
    std::string shown_cell_;  // its output was shown as it came
};

/// Follows a session's stream: `on_event` gets each event of each batch, until it returns false
/// (ok) or the daemon stays away for kFollowPatience. `first` is the number of rows to begin with.
shared::Result<void> follow_session(Client& client, const Session& session, int first,
                                    const std::function<bool(const Json&)>& on_event);

}  // namespace cli
