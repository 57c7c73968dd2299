// The files by which a project speaks to the model: instructions and skills, read from the folder's
// host in one gather, kept in the store as a mirror for when the host is away. Local folders go the
// same way. Blocks on hosts and on the store; for HTTP threads and turns.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/skills/catalogue.h"
#include "api/store/database.h"
#include "api/workspaces/folders.h"
#include "api/workspaces/links.h"
#include "shared/clock.h"

namespace workspaces {

inline constexpr shared::Milliseconds kMirrorRefresh{5'000};  // at most one gather in this time
inline constexpr shared::Milliseconds kFirstGather{60'000};   // a first visit stages the bundle
inline constexpr shared::Milliseconds kNextGather{3'000};     // the mirror serves when this is over
inline constexpr shared::Milliseconds kLinkChecks{3'000};

struct ProjectFiles {
    std::map<std::string, std::string> files;  // path relative to the folder -> text
    std::string problem;  // why they are not from just now, in the host's words
};

/// What a session's model is told of its folder.
struct Opening {
    std::vector<std::string>
        instructions;  // of AGENTS.md, SYSTEM.md and the like, with their names
    skills::Catalogue skills;
    std::vector<std::string> gone_links;
    std::vector<std::string> notes;  // links not checked, files not available
};

class Projects {
  public:
    Projects(store::Database& database, Folders& folders, Links& links)
        : database_(database), folders_(folders), links_(links) {}

    /// From the host, or the mirror when it does not answer in time; never an error.
    ProjectFiles read(const std::string& workspace);
    /// The mirror alone: asks no host.
    ProjectFiles known(const std::string& workspace);
    /// Reads the files and, if `check_links`, asks all linked hosts anew, side by side.
    Opening open(const std::string& workspace, bool check_links);

  private:
    struct Mirror {
        std::mutex reading;  // one gather per workspace; a second asker gets the first one's
        shared::TimePoint read_at{};
        bool loaded = false;
        bool any = false;  // files were read once
        ProjectFiles files;
    };
    std::shared_ptr<Mirror> mirror_of(const std::string& workspace);
    void load(const std::string& workspace, Mirror& mirror);
    void refresh(const std::string& workspace, Mirror& mirror);

    store::Database& database_;
    Folders& folders_;
    Links& links_;
    std::mutex mutex_;
    std::map<std::string, std::shared_ptr<Mirror>> mirrors_;
};

}  // namespace workspaces
