#!/usr/bin/env python3
"""The commands of CONTRIBUTING.md. Usage: contributing_test.py SOURCE_FOLDER BUILD_FOLDER

A command that would build or test everything is not run here. ELSEWHERE names the file that runs it: in CI, on a small project, or on a GPU.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])

# command: (the file that runs it, the words with which it does)
ELSEWHERE = {
    "scripts/setup build": ("scripts/test", "scripts/setup all"),
    "scripts/setup mutate": ("scripts/test", "scripts/setup all"),
    "cmake --preset release": ("scripts/test", 'cmake --preset "$preset"'),
    "scripts/test --quick": ("tests/scripts/test_run_test.py", "--quick"),
    "scripts/lint --changed": ("scripts/test", "scripts/lint --changed"),
    "scripts/test": (".ci/run", "scripts/test"),
    "scripts/mutants operator_plan:2": ("tests/scripts/mutants_test.py", "scripts/mutants"),
    "scripts/mutate operator/plan": ("tests/scripts/mutate_test.py", "scripts/mutate"),
    "scripts/mutate worker/train/loss_scaler.cpp": ("tests/scripts/mutate_test.py", "scripts/mutate"),
    "scripts/gpu pack FOLDER": ("tests/gpu/gpu_test.py", "pack"),
    "FOLDER/scripts/gpu test": ("tests/gpu/CMakeLists.txt", "scripts/gpu test"),
    "FOLDER/scripts/gpu bench": ("tests/gpu/gpu_test.py", "bench"),
    "scripts/gpu test --cpu": ("tests/gpu/CMakeLists.txt", "scripts/gpu test --cpu"),
}


def commands_of(page: str) -> list[str]:
    lines = [line for block in re.findall(r"^```sh\n(.*?)^```$", page, re.DOTALL | re.MULTILINE) for line in block.splitlines()]
    return [command for line in lines if (command := re.sub(r"\s+#.*", "", line).strip())]


class Contributing(unittest.TestCase):
    def setUp(self) -> None:
        self.commands = commands_of((SOURCE / "CONTRIBUTING.md").read_text())

    def run_here(self, command: str) -> str:
        """The output of the command in the repository, with the editor that only sees that the file is there."""
        command = command.replace("build/release", str(BUILD))
        done = subprocess.run(["sh", "-c", command], cwd=SOURCE, env={**os.environ, "EDITOR": "ls"}, capture_output=True, text=True, timeout=500,
                              check=False)
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def test_every_command_is_run(self):
        others = [command for command in self.commands if command not in ELSEWHERE]
        self.assertGreater(len(others), 4)
        for command in others:
            if command.startswith("ctest "):
                self.assertNotIn("Total Tests: 0", self.run_here(f"{command.replace('WORDS', 'plan')} --show-only"))
            elif "--gtest_filter" in command:
                self.assertRegex(self.run_here(command), r"\[  PASSED  \] [1-9]\d* test")
            elif command.endswith(" FILES"):
                self.format(command)
            else:
                self.assertNotEqual(self.run_here(command), "")

    def format(self, command: str) -> None:
        with tempfile.NamedTemporaryFile("w+", suffix=".cpp") as file:
            file.write("int  answer;\n")
            file.flush()
            self.run_here(command.replace("FILES", file.name))
            self.assertEqual(pathlib.Path(file.name).read_text(), "int answer;\n")

    def test_what_is_not_run_here_is_run_elsewhere(self):
        for command, (file, words) in ELSEWHERE.items():
            self.assertIn(command, self.commands)
            self.assertIn(words, (SOURCE / file).read_text(), f"{command} is said to be run by {file}")

    def test_the_debug_preset_compiles_a_file_alone_and_the_release_preset_does_not(self):
        def is_alone(folder: pathlib.Path) -> bool:
            return any(command["file"].endswith("/operator/plan/decide.cpp")
                       for command in json.loads((folder / "compile_commands.json").read_text()))

        with tempfile.TemporaryDirectory() as build:
            self.run_here(f"cmake --preset debug -B {build}")
            self.assertTrue(is_alone(pathlib.Path(build)))
        self.assertFalse(is_alone(BUILD))

    def test_bench_lists_every_bench_that_a_page_names(self):
        listed = {line.split()[0] for line in self.run_here("scripts/bench").splitlines()}
        pages = [SOURCE / "CONTRIBUTING.md", *(SOURCE / "docs").glob("*.md")]
        named = {name for page in pages for name in re.findall(r"scripts/bench ([a-z]+)", page.read_text())}
        self.assertGreater(len(named), 2)
        self.assertLessEqual(named, listed)

    def test_paths_in_its_commands_and_tables_exist(self):
        page = (SOURCE / "CONTRIBUTING.md").read_text()
        paths = set(re.findall(r"(?<![\w/])((?:operator|storage|worker|tests|scripts|docs)/[\w./-]*\.\w+)", page))
        self.assertGreater(len(paths), 8)
        self.assertEqual([path for path in sorted(paths) if not (SOURCE / path).exists()], [])

    def test_planted_bugs_that_it_names_are_in_the_list(self):
        listed = self.run_here("scripts/mutants --list")
        for command in self.commands:
            if named := re.fullmatch(r"scripts/mutants (\w+:\d+)", command):
                self.assertRegex(listed, rf"(?m)^{named[1]}\b")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
