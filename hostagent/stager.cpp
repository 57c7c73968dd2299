#include "hostagent/stager.h"

#include <nlohmann/json.hpp>

#include "hostagent/command_line.h"
#include "hostagent/ssh_failure.h"
#include "shared/bounded_json.h"
#include "shared/ids.h"

namespace hostagent {

using shared::Error;
using shared::ErrorCode;
using shared::Result;

namespace {

// argv[2]: the name of the folder to unpack into.
constexpr std::string_view kProgram = R"python(
import json, os, re, shutil, sys, time

OLD_PART_SECONDS = 600

def unpack(tar, folder):
    """A ustar archive of folders and plain files, as the daemon builds it."""
    at = 0
    while at + 512 <= len(tar) and tar[at]:
        head = tar[at:at + 512]
        name = head[:100].split(b"\0")[0].decode()
        mode = int(head[100:107].split(b"\0")[0], 8)
        size = int(head[124:135].split(b"\0")[0], 8)
        mtime = int(head[136:147].split(b"\0")[0], 8)
        at += 512
        path = os.path.join(folder, name.rstrip("/"))
        if head[156:157] == b"5":
            os.makedirs(path, 0o700, exist_ok=True)
            continue
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        with open(path, "wb") as file:
            file.write(tar[at:at + size])
        os.chmod(path, mode & 0o755 | 0o600)
        os.utime(path, (mtime, mtime))
        at += (size + 511) // 512 * 512

def named_digests(runs):
    """Digests that kernels on record run from; None when one of them cannot be read."""
    named = set()
    for run in os.listdir(runs) if os.path.isdir(runs) else []:
        try:
            with open(os.path.join(runs, run, "kernel.json")) as file:
                named.add(json.load(file)["digest"][:16])
        except (OSError, ValueError, KeyError, TypeError):
            return None
    return named

def in_use(folder):
    for pid in os.listdir("/proc") if os.path.isdir("/proc") else []:
        if pid.isdigit():
            try:
                with open("/proc/%s/cmdline" % pid, "rb") as file:
                    if os.fsencode(folder) in file.read():
                        return True
            except OSError:
                pass
    return False

def clean(root, runs, digest):
    named = named_digests(runs)
    for name in os.listdir(root):
        folder = os.path.join(root, name)
        if re.match(r"[0-9a-f]{16}\.part\.[0-9a-f]+$", name):
            if time.time() - os.lstat(folder).st_mtime > OLD_PART_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)
        elif re.match(r"[0-9a-f]{16}$", name) and name != digest:
            if named is not None and name not in named and not in_use(folder):
                shutil.rmtree(folder, ignore_errors=True)

def stage(plan, part):
    root, final = plan["root"], os.path.join(plan["root"], plan["digest"])
    tar = sys.stdin.buffer.read(plan["bytes"])
    if len(tar) < plan["bytes"]:
        raise OSError(0, "the copy was cut off")
    os.makedirs(root, 0o700, exist_ok=True)
    try:
        os.mkdir(part, 0o700)
        unpack(tar, part)
        try:
            os.rename(part, final)
        except OSError:
            if not os.path.isdir(final):
                raise
    finally:
        shutil.rmtree(part, ignore_errors=True)

plan = json.loads(sys.stdin.buffer.readline().decode())
try:
    stage(plan, os.path.join(plan["root"], sys.argv[2]))
    answer = {"ok": True}
except OSError as fault:
    answer = {"ok": False, "error": "%s: %s" % (fault.strerror, fault.filename or plan["root"])}
print(json.dumps(answer))
sys.stdout.flush()
if answer["ok"]:
    try:
        clean(plan["root"], plan["runs"], plan["digest"])
    except OSError:
        pass
)python";

}  // namespace

std::string part_name(const StagePlan& plan) {
    return plan.digest + ".part." + shared::random_hex(6);
}

std::string stage_input(const StagePlan& plan, std::string_view tar) {
    const nlohmann::json head{
        {"root", plan.root}, {"runs", plan.runs}, {"digest", plan.digest}, {"bytes", tar.size()}};
    std::string data = head.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n";
    data += tar;
    return input_of(kProgram, data);
}

Result<void> read_staged(std::string_view answer, std::string_view words) {
    const auto json = shared::parse_bounded_json(answer);
    if (json.is_object() && json.value("ok", nlohmann::json()) == true) return {};
    std::string why;
    if (json.is_object())
        if (const auto error = json.find("error"); error != json.end() && error->is_string())
            why = printable(error->get<std::string>());
    if (why.empty()) why = last_words(words);
    if (why.empty()) why = "no answer";
    return Error{ErrorCode::unsupported, "the kernel's files cannot be copied there: " + why, {}};
}

}  // namespace hostagent
