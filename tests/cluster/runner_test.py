#!/usr/bin/env python3
"""However a control plane's runner or its starter ends, nothing is left and the next runner can start. Needs no root."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

REPOSITORY = Path(__file__).absolute().parents[2]
SCRIPT = str(REPOSITORY / "scripts/cluster")
EXIT_CANNOT_RUN_HERE = 3
EXIT_SKIPPED = 77  # ctest's SKIP_RETURN_CODE.


def cluster(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, check=False)


def processes_of(folder: Path) -> list[str]:
    """Command lines of all processes that name the folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in words and int(entry.parent.name) != os.getpid():
            found.append(words)
    return found


class Runner(unittest.TestCase):
    def setUp(self):
        parent = tempfile.TemporaryDirectory(prefix="trainyard-runner-test-")
        self.addCleanup(parent.cleanup)
        self.folder = Path(parent.name) / "cluster"
        self.addCleanup(cluster, "down", "--dir", str(self.folder))

    def up(self) -> None:
        done = cluster("up", "--control-plane-only", "--dir", str(self.folder))
        self.assertEqual(done.returncode, 0, done.stderr)

    def expect_nothing_left(self) -> None:
        deadline = time.monotonic() + 30
        while processes_of(self.folder) or self.folder.exists():
            self.assertLess(time.monotonic(), deadline, f"left: {processes_of(self.folder)} {self.folder.exists()}")
            time.sleep(0.05)

    def test_down_leaves_nothing(self):
        self.up()
        self.assertIn("kube-apiserver           running", cluster("status", "--dir", str(self.folder)).stdout)
        self.assertIn(f'export KUBECONFIG="{self.folder}/kubeconfig" PATH="', cluster("env", "--dir", str(self.folder)).stdout)
        self.assertEqual(cluster("down", "--dir", str(self.folder)).returncode, 0)
        self.assertIn("no cluster runs in", cluster("env", "--dir", str(self.folder)).stderr)
        self.expect_nothing_left()

    def test_a_killed_runner_takes_its_processes_along_and_the_next_one_starts(self):
        self.up()
        os.kill(int((self.folder / "lock").read_text()), signal.SIGKILL)
        self.up()
        self.assertEqual(cluster("kubectl", "--dir", str(self.folder), "get", "namespaces").returncode, 0)

    def test_it_ends_with_whoever_started_it(self):
        for seconds in (0.5, 2, 6, None):  # None: it ends after it was ready.
            with subprocess.Popen([SCRIPT, "run", "--control-plane-only", "--dir", str(self.folder)],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as runner:
                if seconds is None:
                    self.assertEqual(runner.stdout.readline(), "ready\n")
                else:
                    time.sleep(seconds)  # This waits for nothing: it chooses a moment of the start.
                runner.stdin.close()
            self.expect_nothing_left()

    def test_two_in_one_folder_are_refused_and_two_in_two_are_not(self):
        self.up()
        second = cluster("up", "--control-plane-only", "--dir", str(self.folder))
        self.assertEqual(second.returncode, 1)
        self.assertIn("runs in", second.stderr)
        self.folder = self.folder.with_name("other")
        self.up()
        cluster("down", "--dir", str(self.folder))
        self.expect_nothing_left()

    def test_a_folder_of_other_files_is_not_touched(self):
        self.folder.mkdir()
        (self.folder / "thesis.tex").write_text("...")
        for command in (("up", "--control-plane-only"), ("down",)):
            done = cluster(*command, "--dir", str(self.folder))
            self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual((self.folder / "thesis.tex").read_text(), "...")
        (self.folder / "thesis.tex").unlink()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        probe = subprocess.run([SCRIPT, "run", "--control-plane-only", "--dir", f"{scratch}/probe"], stdin=subprocess.DEVNULL,
                               capture_output=True, text=True, check=False)
    if probe.returncode == EXIT_CANNOT_RUN_HERE:
        print(f"skipped: {probe.stderr.strip()}")
        sys.exit(1 if os.environ.get("CI") == "true" else EXIT_SKIPPED)
    unittest.main()
