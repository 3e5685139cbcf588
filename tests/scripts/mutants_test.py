#!/usr/bin/env python3
"""scripts/mutants, and the list of planted bugs. Usage: mutants_test.py SOURCE_FOLDER"""

import pathlib
import re
import runpy
import subprocess
import sys
import unittest

from small_project import make_project

SOURCE = pathlib.Path(sys.argv[1]).resolve()
sys.path.insert(0, str(SOURCE / "scripts"))

CMAKE = """cmake_minimum_required(VERSION 3.25)
project(small LANGUAGES NONE)
include(CTest)
add_custom_target(answer_test COMMAND sh -n ${CMAKE_SOURCE_DIR}/answer.sh)
add_test(NAME answer_test COMMAND sh ${CMAKE_SOURCE_DIR}/answer.sh)
"""
ANSWER = """answer=$((6 * 7))
unused=1
[ $answer = 42 ] || { echo "[  FAILED  ] Answer.IsRight"; exit 1; }
"""


def mutant(find: str, put: str) -> str:
    return f"[[mutant]]\nfile = 'answer.sh'\nfind = '{find}'\nput = '{put}'\nwhy = 'A slip.'\ntests = ['answer_test']\n"


KILLED = mutant("6 * 7", "6 + 7")
SURVIVOR = mutant("unused=1", "unused=2")


class Mutants(unittest.TestCase):
    def setUp(self) -> None:
        self.project = make_project(self, ["scripts/mutants", "scripts/tree_copy.py"], {"CMakeLists.txt": CMAKE, "answer.sh": ANSWER})

    def run_mutants(self, *entries: str, words: tuple[str, ...] = ()) -> subprocess.CompletedProcess:
        (self.project / "tests/mutants/small.toml").write_text("\n".join(entries))
        return subprocess.run(["scripts/mutants", *words], cwd=self.project, capture_output=True, text=True, check=False)

    def test_names_the_case_that_killed_a_bug_and_leaves_the_tree_alone(self) -> None:
        done = self.run_mutants(KILLED)
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (0, "1 killed, 0 survived, 0 invalid"), done.stderr)
        self.assertIn("Answer.IsRight", done.stdout)
        self.assertEqual((self.project / "answer.sh").read_text(), ANSWER)

    def test_a_survivor_is_named_and_fails_and_the_next_bug_is_planted_alone(self) -> None:
        done = self.run_mutants(KILLED, SURVIVOR)
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (1, "1 killed, 1 survived, 0 invalid"), done.stderr)
        self.assertIn("survived  small:2", done.stdout)

    def test_a_bug_that_does_not_apply_or_compile_is_no_success(self) -> None:
        for entry, words in ((mutant("no such text", "x"), "holds the text to change 0 times"), (mutant("$((6", "$((("), "does not compile")):
            with self.subTest(words):
                done = self.run_mutants(entry)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(words, done.stdout)

    def test_tests_that_fail_without_a_bug_prove_nothing(self) -> None:
        (self.project / "answer.sh").write_text(ANSWER.replace("= 42", "= 43"))
        done = self.run_mutants(KILLED)
        self.assertEqual(done.returncode, 2)
        self.assertIn("the tests fail without a planted bug: Answer.IsRight", done.stderr)

    def test_one_bug_can_be_chosen_and_an_unknown_name_is_refused(self) -> None:
        self.assertIn("1 killed, 0 survived", self.run_mutants(KILLED, SURVIVOR, words=("small:1",)).stdout)
        self.assertIn("no planted bug is called big", self.run_mutants(KILLED, words=("big",)).stderr)


class List(unittest.TestCase):
    """tests/mutants follows the code: each bug can be planted, and its tests exist."""

    def test_every_planted_bug_applies_and_names_tests_that_exist(self) -> None:
        script = runpy.run_path(str(SOURCE / "scripts/mutants"))
        # From the sources, since a build without the worker does not know all tests.
        lists = [path.read_text() for path in (SOURCE / "tests").rglob("CMakeLists.txt")]
        known = {name for text in lists for name in re.findall(r"(?:trainyard_test\(|add_test\(NAME )(\w+)", text)}
        mutants = script["read_mutants"]()
        self.assertGreater(len(mutants), 0)
        for planted in mutants:
            with self.subTest(planted.name):
                script["plant"](planted, (SOURCE / planted.file).read_text())
                self.assertLessEqual(set(planted.tests), known)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
