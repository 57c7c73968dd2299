"""albedo_browse, albedo_vcs and albedo_gather on folders of every kind, hostile ones included."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

BUNDLE = Path(__file__).resolve().parents[2] / "bundle"
sys.path.insert(0, str(BUNDLE))

import albedo_browse  # noqa: E402
import albedo_gather  # noqa: E402
import albedo_languages  # noqa: E402
import albedo_vcs  # noqa: E402


def snapshot(root):
    """Every file below `root` with its content and times: what looking must not change."""
    found = {}
    for folder, _, names in os.walk(os.fsencode(root)):
        for name in names:
            path = os.path.join(folder, name)
            state = os.lstat(path)
            found[path] = (state.st_mtime_ns, state.st_size, state.st_ino)
    return found


class Folder(unittest.TestCase):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp(prefix="browse-")).resolve()
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        self.marker = self.root / "ran"

    def ask(self, op, path=None):
        answer = albedo_browse.handle({"op": op, "path": str(path or self.root)})
        self.assertTrue(answer["ok"], answer)
        return answer

    def git(self, tree, *words):
        subprocess.run(
            ["git", "-c", "user.name=t", "-c", "user.email=t@e", "-C", str(tree), *words],
            check=True, capture_output=True,
        )

    def repository(self, name="repo"):
        tree = self.root / name
        (tree / "src").mkdir(parents=True)
        (tree / "src" / "main.py").write_text("print('hi')\n" * 40)
        (tree / "README.md").write_text("# tree\n")
        self.git(tree, "init", "-q", "-b", "main")
        self.git(tree, "add", ".")
        self.git(tree, "commit", "-qm", "one")
        return tree


class ListTests(Folder):
    def test_only_folders_sorted_without_case_and_links_to_folders_too(self):
        for name in ("beta", "Alpha", ".hidden"):
            (self.root / name).mkdir()
        (self.root / "file").write_text("")
        (self.root / "link").symlink_to("beta")
        (self.root / "broken").symlink_to("nowhere")
        (self.root / "loop").symlink_to("loop")
        os.mkfifo(self.root / "fifo")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self.root / "sock"))
            names = [entry["name"] for entry in self.ask("list")["entries"]]
        self.assertEqual(names, [".hidden", "Alpha", "beta", "link"])

    def test_a_folder_with_more_than_the_limit_is_cut_and_says_so(self):
        for number in range(albedo_browse.MAX_LISTED + 5):
            (self.root / f"{number:05}").mkdir()
        answer = self.ask("list")
        self.assertTrue(answer["truncated"])
        self.assertEqual(len(answer["entries"]), albedo_browse.MAX_LISTED)
        self.assertEqual(answer["entries"][-1]["name"], f"{albedo_browse.MAX_LISTED - 1:05}")

    def test_a_mark_that_is_remembered_follows_what_happens_in_the_folder(self):
        (self.root / "child").mkdir()
        self.addCleanup(setattr, albedo_vcs, "SETTLED_SECONDS", albedo_vcs.SETTLED_SECONDS)
        albedo_vcs.SETTLED_SECONDS = -1  # remembered at once

        def mark():
            return self.ask("list")["entries"][0]["vcs"]

        self.assertEqual([mark(), mark()], [None, None])
        self.git(self.root / "child", "init", "-q")
        self.assertEqual([mark(), mark()], ["git", "git"])
        before = os.stat(self.root / "child")
        (self.root / "child" / ".jj").mkdir()
        os.utime(self.root / "child", ns=(before.st_atime_ns, before.st_mtime_ns))
        self.assertEqual(mark(), "jj")
        shutil.rmtree(self.root / "child")
        (self.root / "child").mkdir()
        self.assertEqual(mark(), None)

    def test_a_name_that_is_no_utf8_is_shown_and_can_be_sent_back(self):
        os.mkdir(os.fsencode(self.root) + b"/odd\xff name")
        (entry,) = self.ask("list")["entries"]
        self.assertEqual((entry["name"], entry["raw"]), ("odd\ufffd name", "odd%FF%20name"))
        raw = f"{self.root}/{entry['raw']}"
        self.assertTrue(albedo_browse.handle({"op": "list", "raw": raw})["ok"])

    def test_refusals_name_the_cause(self):
        for path, code in (
            ("relative", "invalid"), ("a\0b", "invalid"), (None, "invalid"),
            (str(self.root / "absent"), "not_found"), ("/etc/passwd", "not_found"),
        ):
            with self.subTest(path=path):
                for op in ("list", "repo", "preview"):
                    self.assertEqual(albedo_browse.handle({"op": op, "path": path})["code"], code)

    def test_home_is_spelled_as_the_environment_spells_it(self):
        answer = albedo_browse.handle({"op": "list", "path": "~"})
        self.assertEqual(answer["path"], answer["home"])
        self.assertEqual(answer["home"], os.environ["HOME"].rstrip("/"))


class RepositoryTests(Folder):
    def test_git_facts_and_two_levels_of_tracked_or_changed_paths(self):
        tree = self.repository()
        (tree / "docs").mkdir()
        (tree / "docs" / "new.md").write_text("new\n")
        (tree / ".gitignore").write_text("build\n")
        (tree / "build").mkdir()
        (tree / "build" / "out").write_text("x")
        before = snapshot(tree)
        answer = self.ask("preview", tree)
        self.assertEqual(snapshot(tree), before)
        repo = answer["repo"]
        self.assertEqual((repo["kind"], repo["branch"], repo["changed"]), ("git", "main", 2))
        self.assertEqual(answer["languages"], [{"name": "Python", "bytes": 480}])
        entries = {entry["name"]: entry for entry in answer["tree"]["entries"]}
        self.assertNotIn("build", entries)
        self.assertEqual(entries["docs"]["changed"], 1)
        self.assertEqual(entries["src"]["children"][0]["name"], "main.py")

    def test_detached_and_unborn_have_no_branch_or_commit(self):
        tree = self.repository()
        self.git(tree, "checkout", "-q", "--detach")
        self.assertIsNone(self.ask("repo", tree)["repo"]["branch"])
        fresh = self.root / "fresh"
        self.git(self.root, "init", "-q", "-b", "trunk", str(fresh))
        repo = self.ask("repo", fresh)["repo"]
        self.assertEqual((repo["branch"], repo["commit"], repo["touched"]), ("trunk", None, None))

    def test_the_nearest_repository_wins(self):
        outer = self.repository("outer")
        inner = self.repository("outer/vendor/inner")
        self.assertEqual(self.ask("repo", inner / "src")["repo"]["root"], str(inner))
        self.assertEqual(self.ask("repo", outer / "vendor")["repo"]["root"], str(outer))

    def test_a_folder_that_is_no_repository(self):
        (self.root / "a").mkdir()
        os.mkfifo(self.root / "pipe")
        answer = self.ask("preview")
        self.assertIsNone(answer["repo"])
        kinds = {entry["name"]: entry["kind"] for entry in answer["tree"]["entries"]}
        self.assertEqual(kinds, {"a": "folder", "pipe": "fifo"})

    def test_a_broken_repository_has_null_fields_and_a_reason(self):
        tree = self.root / "broken"
        tree.mkdir()
        (tree / ".git").write_text("gitdir: /nowhere/at/all\n")
        repo = self.ask("repo", tree)["repo"]
        self.assertIsNone(repo["changed"])
        self.assertIn("not a git repository", repo["reason"])

    def test_a_program_that_does_not_answer_costs_its_deadline_and_leaves_nothing(self):
        tree = self.repository()
        fake = self.root / "bin"
        fake.mkdir()
        (fake / "git").write_text(f"#!/bin/sh\nsleep 60 & echo $! >> {self.root}/pids; wait\n")
        (fake / "git").chmod(0o755)
        path, seconds = os.environ["PATH"], albedo_vcs.SECONDS
        os.environ["PATH"], albedo_vcs.SECONDS = f"{fake}:{path}", 0.2
        try:
            repo = self.ask("repo", tree)["repo"]
        finally:
            os.environ["PATH"], albedo_vcs.SECONDS = path, seconds
        self.assertIsNone(repo["changed"])
        self.assertIn("did not answer in time", repo["reason"])
        for pid in (self.root / "pids").read_text().split():
            state = Path(f"/proc/{pid}/stat")
            self.assertTrue(not state.exists() or state.read_text().split()[2] == "Z")

    def test_questions_asked_together_share_one_look(self):
        tree = self.repository()
        looks = []
        examine = albedo_vcs.examine
        entered, leave = threading.Event(), threading.Event()

        def slow(repository):
            looks.append(repository)
            entered.set()
            leave.wait(10)
            examine(repository)

        albedo_vcs.examine = slow
        try:
            answers = []
            askers = [
                threading.Thread(target=lambda: answers.append(self.ask("repo", tree)))
                for _ in range(5)
            ]
            askers[0].start()
            entered.wait(10)
            for asker in askers[1:]:
                asker.start()
            leave.set()
            for asker in askers:
                asker.join(10)
        finally:
            albedo_vcs.examine = examine
        self.assertEqual(len(answers), 5)
        self.assertTrue(all(answer == answers[0] for answer in answers))
        self.assertLess(len(looks), 5)


class HostileRepositoryTests(Folder):
    """Whatever a repository's configuration names, looking at it runs none of it."""

    def attack(self, tree):
        touch = f"touch {self.marker}"
        script = self.root / "evil.sh"
        script.write_text(f"#!/bin/sh\n{touch}\ncat\n")
        script.chmod(0o755)
        for name in ("post-index-change", "pre-commit", "reference-transaction", "post-checkout"):
            hook = tree / ".git" / "hooks" / name
            hook.parent.mkdir(exist_ok=True)
            hook.write_text(f"#!/bin/sh\n{touch}\n")
            hook.chmod(0o755)
        included = tree / "included.config"
        included.write_text(f'[filter "far"]\n\tclean = {script}\n\trequired = true\n')
        with (tree / ".git" / "config").open("a") as config:
            config.write(
                f"[core]\n\tfsmonitor = {script}\n\tpager = {script}\n\tsshCommand = {script}\n"
                f"\thooksPath = {tree}/.git/hooks\n\teditor = {script}\n\taskPass = {script}\n"
                f"[diff]\n\texternal = {script}\n"
                f'[diff "evil"]\n\ttextconv = {script}\n\tcommand = {script}\n'
                f'[filter "evil.with.dots"]\n\tclean = {script}\n\tprocess = {script}\n'
                f"\trequired = true\n"
                f"[alias]\n\tstatus = !{touch}\n\tls-files = !{touch}\n"
                f"[gpg]\n\tprogram = {script}\n[log]\n\tshowSignature = true\n"
                f"[include]\n\tpath = {included}\n[status]\n\tsubmoduleSummary = true\n"
                f"[credential]\n\thelper = !{touch}\n"
            )
        (tree / ".gitattributes").write_text(
            "*.py filter=evil.with.dots diff=evil\n*.md filter=far\n"
        )
        for name in ("src/main.py", "README.md"):  # same size, other time: status must compare
            path = tree / name
            path.write_bytes(path.read_bytes()[::-1])

    def test_nothing_a_git_configuration_names_is_run(self):
        tree = self.repository()
        self.attack(tree)
        for op in ("list", "repo", "preview"):
            answer = self.ask(op, tree)
        self.assertFalse(self.marker.exists())
        self.assertGreaterEqual(answer["repo"]["changed"], 2)

    def test_nothing_a_git_file_that_points_away_names_is_run(self):
        away = self.repository("away")
        self.attack(away)
        tree = self.root / "pointing"
        tree.mkdir()
        (tree / ".git").write_text(f"gitdir: {away}/.git\n")
        self.ask("preview", tree)
        self.assertFalse(self.marker.exists())

    def test_names_with_newlines_bad_utf8_and_great_length(self):
        tree = self.repository()
        names = [b"line\nbreak.py", b"\xff\xfe.py", b"n" * 250, b"-rf", b":(glob)x", b" "]
        for name in names:
            with open(os.fsencode(tree) + b"/" + name, "wb") as file:
                file.write(b"x")
        self.git(tree, "add", "-A")
        answer = self.ask("preview", tree)
        shown = [entry["name"] for entry in answer["tree"]["entries"]]
        for name in names:
            self.assertIn(name.decode(errors="replace"), shown)
        deep = os.fsencode(tree)
        descriptor = os.open(deep, os.O_RDONLY)
        try:
            for _ in range(40):  # beyond 4,096 bytes in all
                os.mkdir(b"d" * 200, dir_fd=descriptor)
                inner = os.open(b"d" * 200, os.O_RDONLY, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
        finally:
            os.close(descriptor)
        self.assertTrue(self.ask("preview", tree)["ok"])


@unittest.skipUnless(shutil.which("jj"), "jj is not installed")
class JjTests(Folder):
    def jj(self, *words):
        subprocess.run(
            ["jj", *words], check=True, capture_output=True,
            env={**os.environ, "JJ_USER": "t", "JJ_EMAIL": "t@e", "HOME": str(self.root)},
        )

    def test_jj_beats_git_and_no_operation_is_written(self):
        tree = self.root / "tree"
        self.jj("git", "init", "--quiet", str(tree))
        (tree / "a.py").write_text("x\n")
        self.jj("-R", str(tree), "status")
        self.jj("-R", str(tree), "bookmark", "create", "main", "-r", "@")
        self.jj("-R", str(tree), "new")
        (tree / "unseen.py").write_text("y\n")
        before = snapshot(tree)
        answer = self.ask("preview", tree)
        self.assertEqual(snapshot(tree), before)
        repo = answer["repo"]
        self.assertEqual(repo["kind"], "jj")
        self.assertEqual(repo["bookmark"], {"name": "main", "ahead": 1})
        self.assertEqual(repo["changed"], 0)
        self.assertIsInstance(repo["touched"], int)
        self.assertEqual([each["name"] for each in answer["tree"]["entries"]], ["a.py"])


class GatherTests(Folder):
    def gather(self):
        answer = albedo_gather.handle({"path": str(self.root)})
        self.assertTrue(answer["ok"], answer)
        return {file["path"]: file["text"] for file in answer["files"]}, answer["skipped"]

    def put(self, name, text="x"):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def test_instructions_and_both_skill_trees(self):
        for name in (
            "AGENTS.md", "SYSTEM.md", ".agents/a.md", ".albedo/b.md", ".agents/skills/s/SKILL.md",
            ".albedo/skills/t/deep/file.txt",
        ):
            self.put(name, name)
        self.put("README.md")
        self.put(".agents/a.txt")
        files, skipped = self.gather()
        self.assertEqual(
            sorted(files),
            [".agents/a.md", ".agents/skills/s/SKILL.md", ".albedo/b.md",
             ".albedo/skills/t/deep/file.txt", "AGENTS.md", "SYSTEM.md"],
        )
        self.assertEqual(skipped, [])

    def test_links_out_fifos_and_large_files_are_left_out_with_a_reason(self):
        outside = Path(tempfile.mkdtemp(prefix="outside-"))
        self.addCleanup(shutil.rmtree, outside)
        (outside / "secret.md").write_text("secret")
        self.put(".agents/ok.md")
        (self.root / "AGENTS.md").symlink_to(outside / "secret.md")
        (self.root / "SYSTEM.md").symlink_to(".agents/ok.md")
        (self.root / ".agents" / "skills").symlink_to(outside)
        (self.root / ".albedo").mkdir()
        os.mkfifo(self.root / ".albedo" / "pipe.md")
        (self.root / ".albedo" / "zero.md").symlink_to("/dev/zero")
        self.put(".albedo/big.md", "x" * (albedo_gather.MAX_FILE_BYTES + 1))
        files, skipped = self.gather()
        self.assertEqual(sorted(files), [".agents/ok.md", "SYSTEM.md"])
        self.assertEqual(
            sorted(each["path"] for each in skipped),
            [".agents/skills/secret.md", ".albedo/big.md", ".albedo/pipe.md", ".albedo/zero.md",
             "AGENTS.md"],
        )

    def test_the_count_is_bounded(self):
        for number in range(albedo_gather.MAX_FILES + 3):
            self.put(f".agents/{number:04}.md")
        files, skipped = self.gather()
        self.assertEqual((len(files), len(skipped)), (albedo_gather.MAX_FILES, 3))


class LanguageTests(unittest.TestCase):
    def test_names_and_longest_extensions(self):
        tables = albedo_languages.load()
        for name, language in (
            ("main.py", "Python"), ("CMakeLists.txt", "CMake"), ("a.d.ts", "TypeScript"),
            ("x.H", "C"), ("README.md", None), ("data.json", None), ("noext", None),
            ("Dockerfile", "Dockerfile"), (".py", None),
        ):
            with self.subTest(name=name):
                self.assertEqual(albedo_languages.language_of(name, tables), language)


if __name__ == "__main__":
    unittest.main()
