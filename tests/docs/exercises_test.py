#!/usr/bin/env python3
"""The commands of docs/exercises.md, as they stand there, with fewer steps. Usage: exercises_test.py SOURCE_FOLDER BUILD_FOLDER"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])


class ExercisesPage(unittest.TestCase):
    def test_its_commands_compare_one_process_with_two(self):
        blocks = re.findall(r"^```sh\n(.*?)^```", (SOURCE / "docs/exercises.md").read_text(), re.MULTILINE | re.DOTALL)
        self.assertEqual(len(blocks), 2)
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "build").mkdir()
            (pathlib.Path(folder) / "build/release").symlink_to(BUILD)
            (pathlib.Path(folder) / "examples").mkdir()
            job = (SOURCE / "examples/exercise.yaml").read_text()
            shorter = job.replace("maxSteps: 40", "maxSteps: 6").replace("every: {steps: 20}", "every: {steps: 3}")
            self.assertNotEqual(shorter, job)
            (pathlib.Path(folder) / "examples/exercise.yaml").write_text(shorter)
            done = subprocess.run(["sh", "-e", "-c", "\n".join(blocks)], cwd=folder, env={"PATH": os.environ["PATH"], "HOME": folder},
                                  capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"--devices: 2 ranks, on the CPU, in place of spec.replicas 1")
        for name in ("one", "two"):
            said = re.search(rf"^{name}: ([\d,]+) images/s, \d+ ms a step: (.*)$", done.stdout, re.MULTILINE)
            self.assertIsNotNone(said, done.stdout)
            shares = dict(part.rsplit(" ", 2)[:2] for part in said.group(2).split(", "))
            self.assertEqual(set(shares), {"backward", "checkpoint", "communication", "data", "forward", "optimizer"})
            self.assertGreater(int(shares["backward"]), int(shares["data"]))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
