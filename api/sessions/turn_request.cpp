#include "api/sessions/turn_request.h"

#include "api/providers/instructions.h"
#include "api/providers/python_tool.h"
#include "api/sessions/kernel_json.h"

namespace sessions {

using nlohmann::json;

namespace {
constexpr std::size_t kCommandBytes = 200;
constexpr std::size_t kListed = 16;

/// The start of the first line, never half a character.
std::string first_line(const std::string& text) {
    std::size_t end = std::min(text.find('\n'), text.size());
    if (end > kCommandBytes) {
        end = kCommandBytes;
        while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    }
    return text.substr(0, end);
}
}  // namespace

providers::ModelRequest make_request(const RequestParts& parts, const ProjectContext& project,
                                     const Transcript& transcript) {
    providers::InstructionParts told;
    told.folder = parts.session.path;
    if (parts.session.host != shared::kLocalHost)
        told.remote = {parts.session.host, parts.host.os, parts.host.arch, parts.host.home};
    told.project_instructions = project.instructions;
    told.skills = project.skills;
    told.gone_links = project.gone_links;
    told.memory = project.memory;
    told.notes = project.notes;
    told.notes.insert(told.notes.end(), parts.notes.begin(), parts.notes.end());
    return {parts.model,
            providers::instructions(told),
            transcript.render(),
            {providers::python_tool()}};
}

std::string carried_on_note(const Session& session) {
    const KernelLink* link = session.link();
    std::string note =
        link != nullptr && link->state() == LinkState::attached
            ? "albedo was restarted; this session's kernel carried on with all its names."
            : "albedo was restarted; this session's kernel is on record and being reached again.";
    std::string running;
    std::size_t listed = 0;
    for (const auto& [number, job] : session.jobs())
        if (++listed <= kListed)
            running +=
                "\n  job " + std::to_string(number) + ": " + first_line(text_of(job, "command"));
    for (const auto& [id, cell] : session.cells())
        if (!cell->finished() && ++listed <= kListed)
            running += "\n  cell " + id.text() + ": " + first_line(cell->row.code.value_or(""));
    if (listed > kListed) running += "\n  and " + std::to_string(listed - kListed) + " more";
    return running.empty() ? note + " Nothing runs there." : note + " Still running:" + running;
}

std::string tool_result(const LiveCell& cell, const std::string& status, const std::string& note) {
    json result = cell_json(cell.row);
    if (!status.empty()) result["status"] = status;
    if (!note.empty()) result["note"] = note;
    // Pictures are for people, who find them in the cell itself: as text they say nothing.
    if (const auto images = result.find("images"); images != result.end() && images->is_array()) {
        for (auto& image : *images)
            if (image.is_object()) image.erase("data");
    }
    return dump(result);
}

}  // namespace sessions
