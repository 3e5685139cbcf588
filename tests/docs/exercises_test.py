#!/usr/bin/env python3
"""The commands of docs/exercises.md, as they stand there, with smaller jobs. Usage: exercises_test.py SOURCE_FOLDER BUILD_FOLDER"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])

# The texts that are replaced in the jobs of the page, so that each of them takes a few seconds. The memory of a rank is that of the whole job.
SMALLER = {
    "exercise.yaml": {"maxSteps: 40": "maxSteps: 6", "every: {steps: 20}": "every: {steps: 3}"},
    "exercise-inference.yaml": {"{format: idx, volumeClaim: datasets, path: fashion-mnist}": "{format: synthetic, samples: 1200}"},
    "exercise-memory.yaml": {"maxSteps: 4": "maxSteps: 2"},
}


def smaller(name: str) -> str:
    text = (SOURCE / "examples" / name).read_text()
    for old, new in SMALLER[name].items():
        if text.count(old) != 1:
            raise ValueError(f"examples/{name} has {text.count(old)} times {old}")
        text = text.replace(old, new)
    return text


class ExercisesPage(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.page = (SOURCE / "docs/exercises.md").read_text()
        blocks = re.findall(r"^```sh\n(.*?)^```", cls.page, re.MULTILINE | re.DOTALL)
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "build").mkdir()
            (pathlib.Path(folder) / "build/release").symlink_to(BUILD)
            (pathlib.Path(folder) / "examples").mkdir()
            for name in SMALLER:
                (pathlib.Path(folder) / "examples" / name).write_text(smaller(name))
            cls.done = subprocess.run(["sh", "-e", "-c", "\n".join(blocks)], cwd=folder, env={"PATH": os.environ["PATH"], "HOME": folder},
                                      capture_output=True, text=True, timeout=500, check=False)
        cls.out = cls.done.stdout

    def setUp(self) -> None:
        self.assertEqual(self.done.returncode, 0, self.out + self.done.stderr)

    def number(self, pattern: str) -> int:
        found = re.findall(rf"^{pattern}$", self.out, re.MULTILINE)
        self.assertEqual(len(found), 1, self.out)
        return int(found[0].replace(",", ""))

    def test_every_job_of_its_commands_succeeds_at_once(self):
        self.assertEqual(len(re.findall(r"^Succeeded in ", self.out, re.MULTILINE)), 2 + 9 + 3)
        self.assertNotIn("Restarting", self.out)

    def test_its_commands_compare_one_process_with_two(self):
        self.assertRegex(self.out, r"--devices: 2 ranks, on the CPU, in place of spec.replicas 1")
        for name in ("one", "two"):
            said = re.search(rf"^{name}: ([\d,]+) images/s, \d+ ms a step: (.*)$", self.out, re.MULTILINE)
            self.assertIsNotNone(said, self.out)
            shares = dict(part.rsplit(" ", 2)[:2] for part in said.group(2).split(", "))
            self.assertEqual(set(shares), {"backward", "checkpoint", "communication", "data", "forward", "optimizer"})
            self.assertGreater(int(shares["backward"]), int(shares["data"]))

    def test_its_commands_compare_predictions_in_batches_of_several_sizes(self):
        self.assertEqual(len(re.findall("one rank, which divides its batches among 2 replicas on the CPU", self.out)), 3)
        self.assertEqual(len(re.findall("predicted 200 samples", self.out)), 9)
        for way in ("ddp-1", "ddp-2", "dp-2"):
            for batch in (1, 16, 256):
                self.assertGreater(self.number(rf"{way}, batches of {batch}: ([\d,]+) images/s"), 0)

    def test_the_bytes_of_the_log_are_those_of_the_formulas_and_of_the_page(self):
        """The log has 4 bytes more for each of the 76 parameters: the number of Adam's steps."""
        parameters = self.number(r"P = ([\d,]+), B = [\d,]+")
        bucket = self.number(r"P = [\d,]+, B = ([\d,]+)")
        ddp = self.number(r"ddp: 4 P = ([\d,]+)")
        sharded = self.number(r"sharded: 5/2 P \+ 3 B = [\d,]+, in the log ([\d,]+)")
        sharded_parameters = self.number(r"shardParameters: 2 P \+ 7 B = [\d,]+, in the log ([\d,]+)")
        self.assertEqual([ddp, sharded, sharded_parameters],
                         [4 * parameters, 5 * parameters // 2 + 3 * bucket + 76 * 4, 2 * parameters + 7 * bucket + 76 * 4])
        for number in (parameters, bucket, ddp, sharded, sharded_parameters):
            self.assertIn(f"{number:,}", self.page)

    def test_the_three_jobs_of_memory_end_with_equal_parameters(self):
        ends = re.findall(r"^(ddp|sharded|parameters): exchanged [\d.]+ P, ends with the parameters (\w+)$", self.out, re.MULTILINE)
        self.assertEqual([name for name, _ in ends], ["ddp", "sharded", "parameters"])
        self.assertEqual(len({checksum for _, checksum in ends}), 1, ends)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
