#!/usr/bin/env python3
"""scripts/mutate, and how it rewrites sources. Usage: mutate_test.py SOURCE_FOLDER. Needs what scripts/setup mutate installs."""

import os
import pathlib
import subprocess
import sys
import time
import unittest

SOURCE = pathlib.Path(sys.argv[1]).resolve()
sys.path.insert(0, str(SOURCE / "scripts"))

PYTHON = subprocess.run(["bash", "-c", 'source scripts/lib.sh; echo "$mutate_home/bin/python"'], cwd=SOURCE, check=True, capture_output=True, text=True).stdout.strip()
if not os.path.exists(PYTHON):
    print("skipped: the parser of C++ is not installed: run scripts/setup mutate")
    sys.exit(77)
if sys.executable != PYTHON:
    os.execv(PYTHON, [PYTHON, *sys.argv])

from mutate import kill_all  # noqa: E402
from mutation import rewrite  # noqa: E402
from small_project import make_project  # noqa: E402

CMAKE = """cmake_minimum_required(VERSION 3.25)
project(small LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
include(CTest)
find_package(GTest REQUIRED)
add_executable(small_test small.cpp tests/small_test.cpp)
target_include_directories(small_test PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(small_test PRIVATE GTest::gtest_main)
add_test(NAME small_test COMMAND small_test)
set_tests_properties(small_test PROPERTIES LABELS "unit;gtest")
"""
SMALL = """#include <vector>

std::vector<int> said;

bool is_small(int number) {
  constexpr int most = 9;
  if (number < 0) return false;
  said.push_back(number);
  return number <= most;
}

int unused(int number) { return number - 1; }
"""
TEST = """#include <gtest/gtest.h>
bool is_small(int number);
TEST(Small, IsBelowTen) {
  EXPECT_TRUE(is_small(9));
  EXPECT_FALSE(is_small(10));
}
"""


def changes(body: str) -> list[str]:
    _, mutants = rewrite("a.cpp", f"void f() {{ {body} }}".encode(), 1, set())
    return [mutant.change for mutant in mutants]


class Rewrite(unittest.TestCase):
    def test_finds_what_can_go_wrong(self) -> None:
        cases = {
            "if (ready) go();": ["always: ready", "never: ready", "left out: go();"],
            "if (int n = count(); n) go();": ["always: n", "never: n", "left out: go();"],
            "if (int n = count()) n = 2;": ["left out: n = 2;", "more than 2: n = 2"],
            "while (more()) x++;": ["never: more()", "left out: x++;"],
            "bool b = x && (y || z);": ["left out: x", "left out: (y || z)", "left out: y", "left out: z", "true: x && (y || z)", "false: x && (y || z)"],
            "return a < b;": ["<= for <: a < b", "true: a < b", "false: a < b"],
            "return true;": ["the opposite: return true;"],
            "auto x = a == b ? c : d;": ["always: a == b", "never: a == b"],
            "if constexpr (big) go();": ["left out: go();"],
            "constexpr int n = 5; std::array<int, 3> a;": [],
            "switch (x) { case 1: go(); }": ["left out: go();"],
            "EXPECT(x);": [],
        }
        for body, expected in cases.items():
            with self.subTest(body):
                self.assertEqual(changes(body), expected)

    def test_keeps_the_lines_and_leaves_out_what_was_refused(self) -> None:
        text = b"\n// A comment.\nint f(int a) {\n  if (a > 1 &&\n      a < 5) return 2;\n  return 0;\n}\n"
        result, mutants = rewrite("a.cpp", text, 1, set())
        self.assertEqual(result.count("\n"), text.count(b"\n") + 2)  # The two lines at the head.
        self.assertEqual({mutant.line for mutant in mutants}, {4, 5, 6})
        _, fewer = rewrite("a.cpp", text, 1, {f"a.cpp:4: {mutant.change}" for mutant in mutants if mutant.line == 4})
        self.assertEqual({mutant.line for mutant in fewer}, {5, 6})


class Mutate(unittest.TestCase):
    def test_ends_what_a_mutant_left_behind(self) -> None:
        marker = "a folder of this test alone " + self.id()
        with subprocess.Popen(["sleep", "1000"], env={**os.environ, "TMPDIR": marker}, start_new_session=True) as left:
            try:
                # The kernel shows a program's environment a moment after it has begun.
                while marker.encode() not in pathlib.Path(f"/proc/{left.pid}/environ").read_bytes():
                    time.sleep(0.01)
                kill_all(marker)
                self.assertEqual(left.wait(10), -9)
            finally:
                left.kill()

    def setUp(self) -> None:
        self.project = make_project(self, ["scripts/mutate.py", "scripts/mutation.py", "scripts/tree_copy.py", "tests/mutants/mutation.hpp"],
                                    {"CMakeLists.txt": CMAKE, "small.cpp": SMALL, "tests/small_test.cpp": TEST})

    def run_mutate(self, *words: str) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, "scripts/mutate.py", *words], cwd=self.project, capture_output=True, text=True, check=False)

    def test_names_what_no_test_notices(self) -> None:
        done = self.run_mutate("small.cpp", "--tests", "small_test")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual([line for line in done.stdout.splitlines() if line.startswith(("survived", "no test"))], [
            # The test asks for 9 and 10 alone, and never for what was said.
            "survived   small.cpp:7: more than 0: number < 0",
            "survived   small.cpp:7: <= for <: number < 0",
            "survived   small.cpp:8: left out: said.push_back(number);",
            # So the condition of line 7 never holds, with or without the mutant, and nothing calls unused().
            "no test    small.cpp:7: never: number < 0",
            "no test    small.cpp:7: the opposite: return false;",
            "no test    small.cpp:12: more than 1: number - 1",
        ])
        self.assertEqual(done.stdout.splitlines()[-1], "4 killed, 3 survived, 3 without a test")
        self.assertEqual((self.project / "small.cpp").read_text(), SMALL)

        # A test that asks for all of it, and the function that nobody calls removed.
        (self.project / "small.cpp").write_text(SMALL.split("int unused")[0])
        (self.project / "tests/small_test.cpp").write_text("#include <vector>\nextern std::vector<int> said;\n" + TEST.replace(
            "EXPECT_FALSE(is_small(10));", "EXPECT_FALSE(is_small(10)); EXPECT_FALSE(is_small(-1)); EXPECT_TRUE(is_small(0)); EXPECT_EQ(said, (std::vector{9, 10, 0}));"))
        done = self.run_mutate("small.cpp", "--tests", "small_test")
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (0, "9 killed, 0 survived, 0 without a test"), done.stdout)

    def test_says_what_keeps_it_from_trying(self) -> None:
        self.assertIn("no test of GoogleTest is called large_test", self.run_mutate("small.cpp", "--tests", "large_test").stderr)
        self.assertIn("no C++ source in nowhere", self.run_mutate("nowhere").stderr)
        (self.project / "tests/small_test.cpp").write_text(TEST.replace("EXPECT_FALSE", "EXPECT_TRUE"))
        done = self.run_mutate("small.cpp", "--tests", "small_test")
        self.assertEqual(done.returncode, 2)
        self.assertIn("these tests fail without a mutant: Small.IsBelowTen", done.stderr)
        (self.project / "tests/small_test.cpp").write_text("no C++")
        self.assertIn("the build fails", self.run_mutate("small.cpp", "--tests", "small_test").stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
