#include "api/providers/instructions.h"

#include <string_view>

namespace providers {
namespace {

constexpr std::string_view kTool =
    "Your tool `python` runs a cell in one persistent kernel of this session: names, imports and\n"
    "open connections live on from cell to cell, and over lost connections and restarts of "
    "albedo.\n"
    "The last expression is returned as `value`, what is printed as `output`; top-level `await`\n"
    "works. Of long output you see a preview; read more with `output.read(id, offset, limit)`.\n"
    "`timeout_ms` interrupts a cell after that time. A cell that runs for long may come back as\n"
    "`backgrounded`: it runs on; do not start it again, look at it with `cells.info(id)`.\n"
    "Start programs with `run(program, *arguments)`: no shell, at once, beside your cells. It "
    "gives\n"
    "a job with `exit_code`, `tail()`, `read()`, `save(path)`, `stop()`; `await job` waits and shows "
    "how it\n"
    "ended; `run(...) | run(...)` is a pipe. Check exit codes. When a job that you have not looked at\n"
    "ends after your turn you are told in a turn of its own; `service=True` for what is to run on,\n"
    "`keep=True` for what must outlive this kernel: `run.job(id)` finds it again.\n"
    "Keep what later sessions should know with `memory.append(text)`; `memory.read()` and\n"
    "`memory.grep(pattern)` look it up, in linked folders too.\n"
    "A result with status `unknown` or `lost` means that nobody knows whether the cell ran to its\n"
    "end: look at what it changed before you repeat anything.\n";

/// At most `limit` bytes, never half a character.
std::string cut(const std::string& text, std::size_t limit) {
    if (text.size() <= limit) return text;
    while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0) == 0x80) --limit;
    return text.substr(0, limit) + "\n(cut here)";
}

void section(std::string& text, std::string_view title, const std::string& content) {
    if (content.empty()) return;
    text += "\n# ";
    text += title;
    text += "\n\n" + content;
    if (!content.ends_with('\n')) text += '\n';
}

}  // namespace

std::string instructions(const InstructionParts& parts) {
    std::string text = "You work in the folder " + parts.folder + ".\n";
    if (parts.remote) {
        text += "Your cells and jobs execute on " + parts.remote->host + " (" + parts.remote->os +
                " " + parts.remote->arch + "), reached over ssh; the home folder there is " +
                parts.remote->home + ". Only memory is kept on the user's own machine.\n";
    } else {
        text += "Your cells and jobs run on the user's own machine.\n";
    }
    text += '\n';
    text += kTool;

    std::string project;
    for (const auto& file : parts.project_instructions) {
        if (!project.empty()) project += "\n\n";
        project += file;
    }
    section(text, "Instructions of this project", cut(project, kMaxProjectInstructionBytes));

    std::string skills;
    for (const auto& skill : parts.skills)
        skills += "- " + skill.name + ": " + skill.description + " (" + skill.path + ")\n";
    section(text, "Skills: read the file before you use one", cut(skills, kMaxSkillsBytes));

    std::string links;
    for (const auto& workspace : parts.gone_links)
        links += "- " + workspace + " (its folder is gone)\n";
    section(text, "Linked folders", links);
    section(text, "Memory of this folder", cut(parts.memory, kMaxMemoryBytes));

    std::string notes;
    for (const auto& note : parts.notes) notes += "- " + note + "\n";
    section(text, "Since your last request", notes);
    return text;
}

}  // namespace providers
