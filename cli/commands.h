// What each command takes and does; one file `command_*.cpp` each. `arguments.cpp` fills these
// structs, so that only that file knows how a command line is read.
//
// Every run_ function prints what it has to say and returns the exit code; an Error is printed by
// main, which also picks its exit code.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "shared/result.h"

namespace cli {

struct Common {
    std::filesystem::path home;  // $ALBEDO_HOME, absolute
    bool json = false;           // one JSON value on standard output instead of text
};

/// `albedo` alone: a daemon runs afterwards; says where, and what to type next.
shared::Result<int> run_start(const Common& common);

shared::Result<int> run_sessions(const Common& common);

struct NewOptions {
    std::string folder = ".";
};
shared::Result<int> run_new(const Common& common, const NewOptions& options);

struct ExecOptions {
    std::vector<std::string> words;  // [FOLDER] CODE, or CODE alone with `session`
    std::string session;             // an id or its start
    double timeout_seconds = 0;      // 0: none
};
shared::Result<int> run_exec(const Common& common, const ExecOptions& options);

struct PromptOptions {
    std::vector<std::string> words;  // [FOLDER] TEXT, or TEXT alone with `session`
    std::string session;             // an id or its start
};
/// Prompts the session's model and shows its turn.
shared::Result<int> run_prompt(const Common& common, const PromptOptions& options);

struct HistoryOptions {
    std::string target = ".";  // a folder, or a session's id or its start
    int rows = 50;
};
shared::Result<int> run_history(const Common& common, const HistoryOptions& options);
/// Shows what happens in a session until interrupted.
shared::Result<int> run_watch(const Common& common, const HistoryOptions& options);

/// The models of config.json, the active one marked.
shared::Result<int> run_models(const Common& common);
/// Whether config.json can be used; fails with what is wrong. Sends nothing to any provider.
shared::Result<int> run_config_check(const Common& common);

struct AttachOptions {
    std::string target;  // a session or a cell
};
shared::Result<int> run_attach(const Common& common, const AttachOptions& options);

struct InterruptOptions {
    std::string target;
    bool force = false;  // also end the worker: variables die with it
};
shared::Result<int> run_interrupt(const Common& common, const InterruptOptions& options);

struct JobsOptions {
    std::string session;  // a folder, or a session's id or its start; empty: all
    std::string job;      // to stop
};
/// The programs that cells started.
shared::Result<int> run_jobs(const Common& common, const JobsOptions& options);
/// Ends one, and what it started; never asked twice.
shared::Result<int> run_stop_job(const Common& common, const JobsOptions& options);

shared::Result<int> run_status(const Common& common);

struct TopOptions {
    bool once = false;  // one look, then the end; so also without a terminal
};
/// The processes live, until `q` or Ctrl-C.
shared::Result<int> run_top(const Common& common, const TopOptions& options);

struct DoctorOptions {
    std::vector<std::string> hosts;  // to be asked too, over the network
};
/// Fails when something needs a person. Starts no daemon unless a host is to be asked.
shared::Result<int> run_doctor(const Common& common, const DoctorOptions& options);

struct LogsOptions {
    bool follow = false;
    int lines = 40;
};
/// The only command besides `shutdown` and `completion` that starts no daemon.
shared::Result<int> run_logs(const Common& common, const LogsOptions& options);

shared::Result<int> run_shutdown(const Common& common);

shared::Result<int> run_hosts(const Common& common);

struct HostOptions {
    std::string action;  // show, warm, restart, stop, quarantine, release, why
    std::string host;    // for restart: empty means all
};
shared::Result<int> run_host(const Common& common, const HostOptions& options);

struct StressOptions {
    std::string host;
    std::vector<std::string> others;  // hosts to watch meanwhile; `local` is, unless it is `host`
    int sessions = 4;
    int cells = 1'000;  // of each session
    std::int64_t output_bytes = 1'000;
    std::vector<std::string> faults;  // bridge, agent, ssh, stop, spin
    int seconds = 20;
    std::uint32_t seed = 1;
};
/// Loads one host, reports, deletes what it made. Fails when something was lost or ran twice.
shared::Result<int> run_stress(const Common& common, const StressOptions& options);

/// Signs in to `host` with the user's own ssh in this terminal, then probes it anew.
shared::Result<int> run_login(const Common& common, const std::string& host);

struct FolderOptions {
    std::string folder = ".";  // here, or HOST:/folder
    bool all = false;          // hidden ones too
};
/// The folders in a folder.
shared::Result<int> run_ls(const Common& common, const FolderOptions& options);
/// The repository that a folder belongs to, its languages and its first two levels.
shared::Result<int> run_repo(const Common& common, const FolderOptions& options);

struct LinkOptions {
    std::string other;         // empty: show the links
    std::string folder = ".";  // whose links
    bool remove = false;
};
shared::Result<int> run_link(const Common& common, const LinkOptions& options);

struct MemoryOptions {
    std::string folder = ".";
    std::string append;  // empty: show the memory
};
shared::Result<int> run_memory(const Common& common, const MemoryOptions& options);

struct MoveOptions {
    std::string folder;
    std::string session;  // an id or its start; empty: this folder's newest
};
shared::Result<int> run_cd(const Common& common, const MoveOptions& options);

struct CompletionOptions {
    std::string shell;                      // bash, zsh, fish
    std::vector<std::string> commands;      // of `albedo`
    std::vector<std::string> host_actions;  // of `albedo hosts`
};
shared::Result<int> run_completion(const CompletionOptions& options);

}  // namespace cli
