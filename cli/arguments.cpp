#include "cli/arguments.h"

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>

#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "shared/home.h"

namespace cli {
namespace {

constexpr const char* kAbout =
    "albedo: one persistent Python kernel per folder, here or on any host your ssh reaches.\n"
    "\n"
    "  albedo exec '1+1'                       run Python in this folder's kernel\n"
    "  albedo exec build-box:/srv/app 'x = 1'  the same on another machine\n"
    "  albedo exec - < script.py               code from standard input\n"
    "  albedo prompt 'run the tests'           ask the model, which works in that kernel\n"
    "  albedo hosts                            the hosts it knows\n"
    "\n"
    "Every command starts the daemon when none runs. Its home is $ALBEDO_HOME, else ~/.albedo.\n"
    "Exit codes: 0 ok, 1 failed or the cell raised, 2 usage, 3 no daemon, 4 host not ready,\n"
    "130 interrupted.";

struct HostAction {
    const char* name;
    const char* about;
};

constexpr HostAction kHostActions[] = {
    {"show", "what is known of a host"},
    {"warm", "probe a host now and wait for the answer"},
    {"restart", "restart a host's agent; its kernels and running cells stay"},
    {"stop", "stop a host's agent until it is needed again"},
    {"quarantine", "stop a host's agent and start none until `release`"},
    {"release", "end a quarantine"},
    {"why", "why a host is in the state it is in: verdict, next step, its agent's last events"},
};

/// Shows an option that has a text of its own by that text, in the usage line too.
class HelpFormatter : public CLI::Formatter {
  public:
    std::string make_option_usage(const CLI::Option* option) const override {
        const std::string& text = option->get_option_text();
        return text.empty() ? Formatter::make_option_usage(option) : text;
    }
};

/// The options of all commands, and the command that was chosen.
struct Parsed {
    Common common;
    NewOptions make;
    ExecOptions exec;
    PromptOptions prompt;
    HistoryOptions history;
    AttachOptions attach;
    InterruptOptions interrupt;
    JobsOptions jobs;
    LogsOptions logs;
    HostOptions host;
    TopOptions top;
    DoctorOptions doctor;
    StressOptions stress;
    bool all_hosts = false;
    FolderOptions folder;
    LinkOptions link;
    MemoryOptions memory;
    MoveOptions move;
    CompletionOptions completion;
    std::function<shared::Result<int>()> run;
};

/// `about` is one line; `examples` show at the end of the command's own help only.
CLI::App* command(CLI::App& app, Parsed& parsed, const std::string& name, const std::string& about,
                  const std::string& examples, std::function<shared::Result<int>()> run) {
    auto* added = app.add_subcommand(name, about);
    if (!examples.empty()) added->footer(examples);
    added->add_flag("--json", parsed.common.json, "one JSON value instead of text");
    added->callback([&parsed, run = std::move(run)] {
        if (!parsed.run) parsed.run = run;
    });
    return added;
}

void add_cells(CLI::App& app, Parsed& p) {
    auto* make = command(app, p, "new", "make a new session, with a kernel of its own",
                         "  albedo new .\n"
                         "  albedo new build-box:~/project",
                         [&p] { return run_new(p.common, p.make); });
    make->add_option("folder", p.make.folder, "a folder here, or HOST:/folder")
        ->capture_default_str();

    auto* exec =
        command(app, p, "exec", "run Python in a session's kernel and show its output as it comes",
                "  albedo exec '1+1'                   in this folder's newest session\n"
                "  albedo exec /srv/app 'import app'   in another folder's\n"
                "  albedo exec gpu:/data 'len(x)'      on host gpu\n"
                "  albedo exec - < script.py           code from standard input\n"
                "Ctrl-C interrupts the cell; a second one leaves it running.",
                [&p] { return run_exec(p.common, p.exec); });
    exec->add_option("code", p.exec.words,
                     "the folder (here, or HOST:/folder) may stand before the code;\n"
                     "code - is read from standard input")
        ->required()
        ->expected(1, 2)
        ->option_text("[FOLDER] CODE");
    exec->add_option("-s,--session", p.exec.session,
                     "a session's id or its start, instead of a folder");
    exec->add_option("-t,--timeout", p.exec.timeout_seconds,
                     "interrupt the cell after so many seconds")
        ->check(CLI::PositiveNumber);

    command(app, p, "attach", "follow a running cell again, from its first line",
            "  albedo attach SESSION    its newest running cell",
            [&p] { return run_attach(p.common, p.attach); })
        ->add_option("target", p.attach.target, "a session or a cell")
        ->required();

    auto* interrupt = command(app, p, "interrupt", "interrupt a cell; names and variables stay", "",
                              [&p] { return run_interrupt(p.common, p.interrupt); });
    interrupt->add_option("target", p.interrupt.target, "a session or a cell")->required();
    interrupt->add_flag("--force", p.interrupt.force,
                        "end the Python process when the cell does not react: variables are lost");
}

void add_jobs(CLI::App& app, Parsed& p) {
    const auto with_session = [&p](CLI::App* added) {
        added->add_option("-s,--session", p.jobs.session,
                          "a folder, or a session's id or its start; all of them if not given");
    };
    auto* jobs = command(app, p, "jobs", "the programs that cells started with run()",
                         "  albedo jobs stop 3    end one, and what it started",
                         [&p] { return run_jobs(p.common, p.jobs); });
    with_session(jobs);
    jobs->require_subcommand(0, 1);
    auto* stop = command(*jobs, p, "stop", "end a job: TERM, then KILL, to all of its group", "",
                         [&p] { return run_stop_job(p.common, p.jobs); });
    with_session(stop);
    stop->add_option("job", p.jobs.job, "its number")
        ->required()
        ->check(CLI::Range(1, 1'000'000'000));
}

void add_turns(CLI::App& app, Parsed& p) {
    auto* prompt = command(app, p, "prompt", "ask the model, which works in a session's kernel",
                           "  albedo prompt 'what is in this folder?'\n"
                           "  albedo prompt build-box:/srv/app 'run the tests'\n"
                           "  albedo prompt - < task.md\n"
                           "Ctrl-C interrupts the turn; a second one leaves it running.",
                           [&p] { return run_prompt(p.common, p.prompt); });
    prompt
        ->add_option("text", p.prompt.words,
                     "the folder (here, or HOST:/folder) may stand before the text;\n"
                     "text - is read from standard input")
        ->required()
        ->expected(1, 2)
        ->option_text("[FOLDER] TEXT");
    prompt->add_option("-s,--session", p.prompt.session,
                       "a session's id or its start, instead of a folder");

    const auto look = [&](const char* name, const char* about, auto run) {
        auto* added =
            command(app, p, name, about, "", [&p, run] { return run(p.common, p.history); });
        added->add_option("target", p.history.target, "a folder, or a session's id or its start")
            ->capture_default_str();
        added->add_option("-n,--rows", p.history.rows, "how many rows of the transcript")
            ->capture_default_str()
            ->check(CLI::Range(1, 1000));
    };
    look("history", "the transcript of a session", run_history);
    look("watch", "follow what happens in a session", run_watch);

    command(app, p, "models", "the models of config.json; * marks the active one", "",
            [&p] { return run_models(p.common); });
    auto* config = app.add_subcommand("config", "config.json, which says what models there are");
    config->require_subcommand(1);
    command(*config, p, "check", "whether it can be used, and what is wrong; sends nothing", "",
            [&p] { return run_config_check(p.common); });
}

void add_daemon(CLI::App& app, Parsed& p) {
    command(app, p, "sessions", "list the sessions, newest first", "",
            [&p] { return run_sessions(p.common); });
    command(app, p, "status", "the daemon's processes: pids, uptime, restarts, memory", "",
            [&p] { return run_status(p.common); });
    command(app, p, "top", "the same live: CPU, memory, kernels, calls",
            "  albedo top --once --json    one look, for a script",
            [&p] { return run_top(p.common, p.top); })
        ->add_flag("--once", p.top.once, "one look, then the end");
    command(app, p, "doctor", "what may be wrong, here or with a host, and what to do",
            "  albedo doctor             this machine and the daemon\n"
            "  albedo doctor gpu web     these hosts too, over the network",
            [&p] { return run_doctor(p.common, p.doctor); })
        ->add_option("host", p.doctor.hosts, "hosts to ask too")
        ->option_text("[HOST...]");
    auto* logs = command(app, p, "logs", "the end of daemon.log", "  albedo logs -f",
                         [&p] { return run_logs(p.common, p.logs); });
    logs->add_flag("-f,--follow", p.logs.follow, "go on as lines come");
    logs->add_option("-n,--lines", p.logs.lines, "how many lines")
        ->capture_default_str()
        ->check(CLI::Range(0, 1000000));
    command(app, p, "shutdown", "stop the daemon; kernels and their cells go on", "",
            [&p] { return run_shutdown(p.common); });
}

void add_hosts(CLI::App& app, Parsed& p) {
    auto* hosts = command(app, p, "hosts", "the hosts of ~/.ssh/config and of sessions",
                          "  albedo hosts why gpu      what is wrong with it\n"
                          "  albedo hosts login gpu    sign in with your own ssh",
                          [&p] { return run_hosts(p.common); });
    hosts->require_subcommand(0, 1);
    auto add = [&](const char* name, const char* about, std::function<shared::Result<int>()> run) {
        auto* added = command(*hosts, p, name, about, "", std::move(run));
        auto* host = added->add_option("host", p.host.host, "as `ssh HOST` would take it");
        p.completion.host_actions.push_back(name);
        if (std::string_view(name) == "restart")
            host->excludes(
                added->add_flag("--all", p.all_hosts, "every host that has an agent now"));
        else
            host->required();
    };
    for (const auto& action : kHostActions) {
        add(action.name, action.about, [&p, action]() -> shared::Result<int> {
            if (p.host.host.empty() && !p.all_hosts)
                return shared::Error{shared::ErrorCode::invalid, "name a host, or say --all", {}};
            return run_host(p.common, {action.name, p.host.host});
        });
    }
    add("login", "sign in with your own ssh in this terminal; the daemon then rides on it",
        [&p] { return run_login(p.common, p.host.host); });
}

void add_stress(CLI::App& app, Parsed& p) {
    auto* stress =
        command(app, p, "stress", "load one host, with faults if asked, and watch the others",
                "  albedo stress gpu\n"
                "  albedo stress gpu --faults bridge,agent,ssh --seconds 60 --seed 7 --json\n"
                "It makes sessions of its own and deletes them. Exit code 1: something was lost, ran\n"
                "twice, or did not come back.",
                [&p] { return run_stress(p.common, p.stress); });
    stress->add_option("host", p.stress.host, "as `ssh HOST` would take it, or local")->required();
    stress->add_option("--sessions", p.stress.sessions, "sessions at once")
        ->capture_default_str()
        ->check(CLI::Range(1, 64));
    stress->add_option("--cells", p.stress.cells, "cells of each session at most")
        ->capture_default_str()
        ->check(CLI::Range(1, 1000000));
    stress->add_option("--output", p.stress.output_bytes, "bytes that each cell prints")
        ->capture_default_str()
        ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 30));
    stress
        ->add_option("--faults", p.stress.faults,
                     "what is done to the host's processes meanwhile, at random: bridge and ssh\n"
                     "are cut, the agent is killed (agent), stopped (stop) or spins (spin)")
        ->delimiter(',')
        ->check(CLI::IsMember({"bridge", "agent", "ssh", "stop", "spin"}));
    stress->add_option("--seconds", p.stress.seconds, "no cell begins after so many")
        ->capture_default_str()
        ->check(CLI::Range(1, 86400));
    stress->add_option("--seed", p.stress.seed, "of what is random")->capture_default_str();
    stress->add_option("--others", p.stress.others, "hosts to watch besides local")->delimiter(',');
}

void add_project(CLI::App& app, Parsed& p) {
    auto* ls = command(app, p, "ls", "the folders in a folder, here or on a host",
                       "  albedo ls build-box:~", [&p] { return run_ls(p.common, p.folder); });
    ls->add_option("folder", p.folder.folder, "a folder here, or HOST:/folder")
        ->capture_default_str();
    ls->add_flag("-a,--all", p.folder.all, "hidden ones too");

    command(app, p, "repo", "a folder's repository, languages and first two levels",
            "  albedo repo build-box:/srv/app", [&p] { return run_repo(p.common, p.folder); })
        ->add_option("folder", p.folder.folder, "a folder here, or HOST:/folder")
        ->capture_default_str();

    auto* link =
        command(app, p, "link", "the workspaces that hold the same project; link another one",
                "  albedo link                        show them, each asked anew\n"
                "  albedo link build-box:/srv/app     link it with this folder\n"
                "  albedo link --remove build-box:/srv/app",
                [&p] { return run_link(p.common, p.link); });
    link->add_option("workspace", p.link.other, "a folder here, or HOST:/folder");
    link->add_option("-C,--folder", p.link.folder, "whose links")->capture_default_str();
    link->add_flag("--remove", p.link.remove, "take it out again; nothing is deleted");

    auto* memory = command(app, p, "memory", "a workspace's memory, as its cells see it",
                           "  albedo memory --append 'the gate runs on build-box'",
                           [&p] { return run_memory(p.common, p.memory); });
    memory->add_option("folder", p.memory.folder, "a folder here, or HOST:/folder")
        ->capture_default_str();
    memory->add_option("--append", p.memory.append, "a line to add");

    auto* cd = command(app, p, "cd", "let a session go on in another folder",
                       "  albedo cd build-box:/srv/app", [&p] { return run_cd(p.common, p.move); });
    cd->add_option("folder", p.move.folder, "a folder here, or HOST:/folder")->required();
    cd->add_option("-s,--session", p.move.session, "a session's id or its start");
}

void add_completion(CLI::App& app, Parsed& p) {
    auto* completion = command(app, p, "completion", "print a completion script",
                               "  source <(albedo completion bash)\n"
                               "  albedo completion fish > ~/.config/fish/completions/albedo.fish",
                               [&p] { return run_completion(p.completion); });
    completion->add_option("shell", p.completion.shell, "bash, zsh or fish")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh", "fish"}));
    for (const auto* sub : app.get_subcommands([](CLI::App*) { return true; })) {
        p.completion.commands.push_back(sub->get_name());
    }
}

}  // namespace

shared::Result<int> run_command_line(int argc, char** argv, bool& json) {
    Parsed parsed;
    CLI::App app(kAbout, "albedo");
    app.formatter(std::make_shared<HelpFormatter>());
    app.add_flag("--json", parsed.common.json, "one JSON value instead of text");
    app.set_version_flag("--version", "albedo " ALBEDO_VERSION);
    app.require_subcommand(0, 1);
    add_cells(app, parsed);
    add_jobs(app, parsed);
    add_turns(app, parsed);
    add_daemon(app, parsed);
    add_hosts(app, parsed);
    add_stress(app, parsed);
    add_project(app, parsed);
    add_completion(app, parsed);
    try {
        app.parse(argc, argv);
        if (parsed.exec.words.size() > 1 && !parsed.exec.session.empty()) {
            throw CLI::ValidationError("exec", "takes FOLDER or --session, not both");
        }
        if (parsed.prompt.words.size() > 1 && !parsed.prompt.session.empty()) {
            throw CLI::ValidationError("prompt", "takes FOLDER or --session, not both");
        }
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? kOk : kUsage;
    }
    json = parsed.common.json;
    parsed.common.home = shared::default_home();
    return parsed.run ? parsed.run() : run_start(parsed.common);
}

}  // namespace cli
