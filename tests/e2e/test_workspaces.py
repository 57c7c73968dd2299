"""What a session knows of its folder: browsing over HTTP, memory applied once, links."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import unittest
import urllib.parse
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from harness import Daemon, HttpError, wait_until  # noqa: E402


def look(daemon: Daemon, op: str, path: object) -> dict:
    return daemon.get(f"/fs/{op}?path={urllib.parse.quote(os.fsencode(str(path)))}")


class BrowsingTests(unittest.TestCase):
    def test_a_folder_and_its_repository(self):
        with Daemon() as daemon:
            tree = daemon.workspace / "it's a tree"
            (tree / "src").mkdir(parents=True)
            (tree / "src" / "main.py").write_text("print()\n")
            subprocess.run(["git", "init", "-q", "-b", "main", str(tree)], check=True)
            listed = look(daemon, "list", tree)
            self.assertEqual([entry["name"] for entry in listed["entries"]], [".git", "src"])
            self.assertEqual(listed["home"], str(daemon.user_home))
            self.assertEqual(look(daemon, "repo", tree / "src")["repo"]["root"], str(tree))
            preview = look(daemon, "preview", tree)
            self.assertEqual(preview["repo"]["changed"], 1)
            self.assertEqual(look(daemon, "list", "~")["path"], str(daemon.user_home))

    def test_refusals_have_their_status_and_reason(self):
        with Daemon() as daemon:
            for path, status, words in (
                ("relative", 400, "absolute"), ("~other/x", 400, ""), ("h:relative", 400, ""),
                ("/etc/passwd", 404, "not a directory"), ("/no/such/folder", 404, "not a directory"),
                ("-oProxyCommand=x:/x", 400, "not a valid"), ("", 400, ""),
            ):
                with self.subTest(path=path), self.assertRaises(HttpError) as refused:
                    look(daemon, "list", path)
                self.assertEqual(refused.exception.status, status, refused.exception)
                self.assertIn(words, refused.exception.answer["error"])
            with self.assertRaises(HttpError) as refused:
                daemon.get("/fs/list")
            self.assertEqual(refused.exception.status, 400)

    def test_a_name_that_is_no_utf8_can_be_sent_back(self):
        with Daemon() as daemon:
            os.mkdir(os.fsencode(daemon.workspace) + b"/odd\xff")
            os.mkdir(os.fsencode(daemon.workspace) + b"/odd\xff/inner")
            (entry,) = look(daemon, "list", daemon.workspace)["entries"]
            inside = daemon.get(f"/fs/list?path={daemon.workspace}/{entry['raw']}")
            self.assertEqual([each["name"] for each in inside["entries"]], ["inner"])


class MemoryTests(unittest.TestCase):
    def file_of(self, daemon: Daemon, workspace: object) -> Path:
        slug = re.sub(r"[^A-Za-z0-9]", "-", str(workspace))
        return daemon.home / "memories" / slug / "memory.md"

    def test_every_call_and_the_file_behind_it(self):
        with Daemon() as daemon:
            session = daemon.session()
            result = daemon.cell(session, "memory.append('first')\nmemory.append('second')\n"
                                          "memory.journal('today')\n(memory.read(), memory.journal())")
            self.assertEqual(result["value"], repr(("first\nsecond\n", "today\n")), result)
            self.assertEqual(self.file_of(daemon, daemon.workspace).read_text(), "first\nsecond\n")
            self.assertEqual(
                daemon.cell(session, "memory.save('new\\n\\nwords here')\nprint(memory.grep('w.r'))\n"
                                     "print(memory.search('here'))")["output"],
                "memory.md:3: words here\nmemory.md:3: words here\n",
            )
            failed = daemon.cell(session, "memory.journal(date='../../x')")
            self.assertIn("YYYY-MM-DD", failed["error"]["message"])
            shown = daemon.get(f"/memory?workspace={daemon.workspace}")
            self.assertEqual(shown["text"], "new\n\nwords here")

    def test_appends_are_applied_once_while_the_api_is_killed(self):
        with Daemon() as daemon:
            session = daemon.session()
            cell = daemon.start_cell(
                session, "import time\nfor n in range(150):\n    memory.append(f'line {n}')\n"
                         "    time.sleep(0.02)\n'all'")
            for _ in range(5):
                time.sleep(0.5)
                for api in daemon.processes("albedo-api"):
                    os.kill(api, signal.SIGKILL)

            def ended() -> dict | None:
                try:
                    found = daemon.get(f"/sessions/{session}/cells/{cell}")
                except (OSError, HttpError, ValueError):
                    return None
                return found if found["status"] not in ("queued", "running") else None

            result = wait_until(ended, 60, "the cell's end")
            self.assertEqual(result["value"], "'all'", result)
            self.assertEqual(self.file_of(daemon, daemon.workspace).read_text(),
                             "".join(f"line {n}\n" for n in range(150)))

    def test_two_workspaces_never_share_a_memory(self):
        with Daemon() as daemon:
            for name in ("a.b", "a-b"):
                folder = daemon.workspace / name
                folder.mkdir()
                daemon.cell(daemon.session(folder), f"memory.append({name!r})")
            texts = [daemon.get(f"/memory?workspace={daemon.workspace}/{name}")["text"]
                     for name in ("a.b", "a-b")]
            self.assertEqual(texts, ["a.b\n", "a-b\n"])
            self.assertEqual(len(list((daemon.home / "memories").iterdir())), 2)


class LinkTests(unittest.TestCase):
    def link(self, daemon: Daemon, session: str, **args: str) -> dict:
        return daemon.post(f"/sessions/{session}/commands", {"name": "/link", "args": args})["result"]

    def test_links_belong_to_workspaces_and_cover_memory(self):
        with Daemon() as daemon:
            folders = [daemon.workspace / name for name in ("one", "two", "three")]
            for folder in folders:
                folder.mkdir()
            one, two = (daemon.session(folder) for folder in folders[:2])
            message = self.link(daemon, one, action="add", details=str(folders[1]))["message"]
            self.assertIn("linked with", message)
            self.link(daemon, two, action="add", details=str(folders[2]))
            daemon.cell(two, "memory.append('the gate')")
            rows = self.link(daemon, one)["page"]["rows"]
            self.assertEqual([row["id"] for row in rows], [str(folder) for folder in folders])
            self.assertEqual([row["badge"] for row in rows], ["here", "", ""])
            found = daemon.cell(one, "print(memory.grep('gate'))")
            self.assertEqual(found["output"], f"[{folders[1]}] memory.md:1: the gate\n")
            folders[2].rmdir()
            self.assertEqual(self.link(daemon, daemon.session(folders[0]))["page"]["rows"][2]["badge"], "gone")
            self.link(daemon, one, action="remove", details=str(folders[1]))
            self.assertEqual(len(self.link(daemon, one)["page"]["rows"]), 2)
            self.assertEqual(daemon.cell(one, "print(memory.grep('gate'))")["output"], "\n")

    def test_a_link_that_cannot_be_is_refused_with_the_reason(self):
        with Daemon() as daemon:
            session = daemon.session()
            for details in (str(daemon.workspace), "relative", "h:~/x", ""):
                with self.subTest(details=details), self.assertRaises(HttpError) as refused:
                    self.link(daemon, session, action="add", details=details)
                self.assertEqual(refused.exception.status, 400)


class MovingTests(unittest.TestCase):
    def test_a_session_goes_on_elsewhere_when_idle(self):
        with Daemon() as daemon:
            session = daemon.session()
            other = daemon.workspace / "other"
            other.mkdir()
            pid = daemon.cell(session, "import os\nos.getpid()")["value"]
            daemon.start_cell(session, "import time\ntime.sleep(3)")
            with self.assertRaises(HttpError) as refused:
                daemon.post(f"/sessions/{session}/workspace", {"workspace": str(other)})
            self.assertEqual(refused.exception.status, 409)
            wait_until(lambda: not daemon.get(f"/sessions/{session}/status")["running"], 20, "idle")
            moved = daemon.post(f"/sessions/{session}/workspace", {"workspace": str(other)})
            self.assertEqual(moved["workspace"], str(other))
            wait_until(lambda: not Path(f"/proc/{pid}").exists(), 15, "the old kernel's end")
            result = daemon.cell(session, "import os\n(os.getcwd(), os.getpid() != " + pid + ")")
            self.assertEqual(result["value"], repr((str(other), True)))


if __name__ == "__main__":
    unittest.main()
