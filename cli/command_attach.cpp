#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/follow.h"
#include "cli/running_cell.h"
#include "cli/terminal.h"

namespace cli {

shared::Result<int> run_attach(const Common& common, const AttachOptions& options) {
    Client client(common.home);
    const auto cell = find_cell(client, options.target);
    if (!cell) return cell.error();
    return follow_cell(client, *cell, common.json);
}

shared::Result<int> run_interrupt(const Common& common, const InterruptOptions& options) {
    Client client(common.home);
    const auto cell = find_cell(client, options.target);
    if (!cell) return cell.error();
    Json body = Json::object();
    if (options.force) body["force"] = true;
    const auto sent = client.post("/sessions/" + path_segment(cell->session.id) + "/cells/" +
                                      path_segment(cell->id) + "/interrupt",
                                  body);
    if (!sent) return sent.error();
    write_output(common.json ? sent->dump() + "\n" : "asked cell " + cell->id + " to stop\n");
    return kOk;
}

}  // namespace cli
