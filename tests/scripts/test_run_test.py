#!/usr/bin/env python3
"""scripts/test and scripts/lint never end green after a failure. Usage: test_run_test.py SOURCE_FOLDER

The real scripts run in a small project of their own: its "programs" are shell scripts that real ctest runs, so a whole run takes a second.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else ".").resolve()

STAGES = """
setup 0 all
build 0 all quick
unit 2 all
unit 2 quick
asan-build 0 all
asan 1 all
tsan-build 0 all
tsan 1 all
integration 1 all
end-to-end 1 all
lint 0 all
"""

# Acts as a GoogleTest program, which leaves a report at the place that GTEST_OUTPUT names.
REPORTS_A_CASE = """report=${GTEST_OUTPUT#xml:}NAME.xml
echo '<testsuites><testsuite><testcase classname="Suite" name="Case" status="run"/></testsuite></testsuites>' >"$report"
"""
REPORTS_A_FAILURE = """report=${GTEST_OUTPUT#xml:}NAME.xml
echo '<testsuites><testsuite><testcase classname="Suite" name="Case" status="run"><failure message="1 is not 2"/></testcase></testsuite></testsuites>' >"$report"
exit 1
"""
# Every process of the group that the sanitizers' builds and tests run in: the script that starts them, too.
KILLS_ITS_GROUP = "kill -KILL -- -$(ps -o pgid= -p $$ | tr -d ' ')\n"
KILLS_CTEST = "kill -KILL $PPID\n"

PYTEST_REPORT = '<testsuites><testsuite tests="1"><testcase classname="e2e" name="case"/></testsuite></testsuites>'
END_TO_END = f"""#!/bin/sh
mkdir -p "$2"
echo '{PYTEST_REPORT}' >"$2/pytest.xml"
"""


class TestRun(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.project = pathlib.Path(folder.name)
        (self.project / "scripts").mkdir()
        for name in ("test", "lib.sh", "versions.env", "test_results.py"):
            shutil.copy(SOURCE / "scripts" / name, self.project / "scripts" / name)
        tools = self.project / "tools/cluster/programs"
        shutil.copytree(SOURCE / "tools/cluster/programs", tools)
        self.write("scripts/stages.txt", STAGES)
        self.write("scripts/setup", "#!/bin/sh\n")
        self.write("scripts/lint", "#!/bin/sh\n")
        self.write("tests/e2e/run", END_TO_END)
        # name -> (label, whether it is a GoogleTest program, what it does)
        self.programs = {
            "plain_test": ("unit", True, REPORTS_A_CASE),
            "script_test": ("unit", False, "exit 0\n"),
            "sanitized_test": ("sanitized", True, REPORTS_A_CASE),
            "server_test": ("integration", True, REPORTS_A_CASE),
        }

    def write(self, name: str, text: str) -> None:
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def run_tests(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
        lines = ["cmake_minimum_required(VERSION 3.25)", "project(small LANGUAGES NONE)", "include(CTest)",
                 "add_custom_target(plain)", "add_custom_target(sanitized_tests)"]
        for name, (label, is_google_test, body) in self.programs.items():
            self.write(f"programs/{name}", "#!/bin/bash\n" + body.replace("NAME", name))
            lines += [f"add_test(NAME {name} COMMAND ${{CMAKE_SOURCE_DIR}}/programs/{name})",
                      f'set_tests_properties({name} PROPERTIES LABELS "{label}{";gtest" if is_google_test else ""}" SKIP_RETURN_CODE 77)']
        self.write("CMakeLists.txt", "\n".join(lines) + "\n")
        presets = [{"name": name, "generator": "Ninja", "binaryDir": f"${{sourceDir}}/build/{name}"} for name in ("release", "asan", "tsan")]
        self.write("CMakePresets.json", json.dumps({"version": 6, "configurePresets": presets}))
        return subprocess.run(["scripts/test", *arguments], cwd=self.project, capture_output=True, text=True, check=False,
                              env={**os.environ, "CI": "", **environment})

    def expect_failure(self, done: subprocess.CompletedProcess, count: int, *sentences: str) -> None:
        self.assertNotEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout.splitlines()[-1], rf"^\d+ passed, {count} failed", done.stdout + done.stderr)
        for sentence in sentences:
            self.assertIn(sentence, done.stdout)

    def test_a_run_without_a_fault_is_green(self) -> None:
        done = self.run_tests()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.splitlines()[-1], "6 passed, 0 failed")

    def test_a_quick_run_sets_nothing_up_and_runs_the_unit_tests_alone(self) -> None:
        self.write("scripts/setup", "#!/bin/sh\nexit 3\n")
        self.programs["server_test"] = ("integration", True, REPORTS_A_FAILURE)
        done = self.run_tests("--quick")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.splitlines()[-1], "2 passed, 0 failed")
        self.programs["plain_test"] = ("unit", True, REPORTS_A_FAILURE)
        self.expect_failure(self.run_tests("--quick"), 1, "FAILED: unit: plain_test: Suite.Case\n1 is not 2")

    def test_a_failed_case_fails_the_run(self) -> None:
        self.programs["server_test"] = ("integration", True, REPORTS_A_FAILURE)
        self.expect_failure(self.run_tests(), 1, "FAILED: integration: server_test: Suite.Case\n1 is not 2")

    def test_a_label_that_matches_no_test_fails_the_run(self) -> None:
        del self.programs["server_test"]
        self.expect_failure(self.run_tests(), 2, "FAILED: integration: the stage\nits exit status is 1",
                            "it reported 0 tests, and scripts/stages.txt asks for 1 at least")

    def test_a_program_that_is_missing_fails_the_run(self) -> None:
        self.programs["server_test"] = ("integration", True, REPORTS_A_CASE)
        self.write("scripts/setup", "#!/bin/sh\nrm programs/server_test\n")
        self.expect_failure(self.run_tests(), 1, "FAILED: integration: server_test")

    def test_a_program_that_leaves_early_with_exit_status_0_fails_the_run(self) -> None:
        self.programs["server_test"] = ("integration", True, "exit 0\n")
        self.expect_failure(self.run_tests(), 1, "it ended with exit status 0 and reported no case")

    def test_a_skipped_test_fails_the_run_in_ci_alone(self) -> None:
        self.programs["script_test"] = ("unit", False, "exit 77\n")
        done = self.run_tests()
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (0, "5 passed, 0 failed, 1 skipped"), done.stderr)
        self.expect_failure(self.run_tests(CI="true"), 1, "skipped: unit: script_test: SKIP_RETURN_CODE=77")

    def test_sanitizers_that_are_killed_in_the_background_fail_the_run(self) -> None:
        # Only in the stage asan: its folder is the one that GTEST_OUTPUT names.
        self.programs["sanitized_test"] = ("sanitized", True, f"case $GTEST_OUTPUT in */asan/) {KILLS_ITS_GROUP};; esac\n{REPORTS_A_CASE}")
        done = self.run_tests()
        self.assertNotEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("FAILED: asan: the stage\nit did not run to its end", done.stdout)

    def test_a_ctest_that_is_killed_fails_the_run(self) -> None:
        self.programs["server_test"] = ("integration", True, KILLS_CTEST)
        self.expect_failure(self.run_tests(), 1, "FAILED: integration: ctest\nctest left no report")

    def test_every_stage_that_fails_fails_the_run(self) -> None:
        for script, stage in (("scripts/setup", "setup"), ("scripts/lint", "lint")):
            with self.subTest(stage):
                self.write(script, "#!/bin/sh\nexit 3\n")
                self.expect_failure(self.run_tests(), 1, f"FAILED: {stage}: the stage\nits exit status is 3")
                self.write(script, "#!/bin/sh\n")
        # Its report says that all is well, and its exit status does not.
        self.write("tests/e2e/run", END_TO_END + "exit 1\n")
        self.expect_failure(self.run_tests(), 1, "FAILED: end-to-end: the stage\nits exit status is 1")

    def test_a_stage_that_vanished_from_the_script_fails_the_run(self) -> None:
        script = (self.project / "scripts/test").read_text()
        self.assertIn("  stage lint scripts/lint --changed\n", script)
        self.write("scripts/test", script.replace("  stage lint scripts/lint --changed\n", ""))
        self.expect_failure(self.run_tests(), 1, "FAILED: lint: the stage\nit did not run to its end")

    def test_fewer_tests_than_the_list_asks_for_fail_the_run(self) -> None:
        del self.programs["script_test"]
        self.expect_failure(self.run_tests(), 1, "it reported 1 tests, and scripts/stages.txt asks for 2 at least")


class Lint(unittest.TestCase):
    """scripts/lint in a project of its own, with a program of the path that fails."""

    def run_lint(self, failing: str) -> subprocess.CompletedProcess:
        with tempfile.TemporaryDirectory() as name:
            project = pathlib.Path(name)
            (project / "scripts").mkdir()
            for script in ("lint", "lib.sh", "versions.env"):
                shutil.copy(SOURCE / "scripts" / script, project / "scripts" / script)
            shutil.copytree(SOURCE / "tools/cluster/programs", project / "tools/cluster/programs")
            programs = {"scripts/setup": "exit 0", "path/cmake": "mkdir -p build/release build/clang; touch build/release/build.ninja; "
                        "echo '[]' >build/clang/compile_commands.json", "path/clang-format-14": "exit 0", "path/clang-tidy-14": "exit 0"}
            if failing == "git":
                programs["path/git"] = "case \"$1\" in diff) exit 128 ;; ls-files) echo a.cpp ;; *) echo 0000000 ;; esac"
            elif failing == "python3":
                programs["path/git"] = "case \"$1\" in ls-files|diff) echo a.cpp ;; *) echo 0000000 ;; esac"
                programs["path/python3"] = "exit 1"
            for path, body in programs.items():
                (project / path).parent.mkdir(exist_ok=True)
                (project / path).write_text(f"#!/bin/sh\n{body}\n")
                (project / path).chmod(0o755)
            return subprocess.run(["scripts/lint", "--changed"], cwd=project, capture_output=True, text=True, check=False,
                                  env={**os.environ, "PATH": f"{project}/path:{os.environ['PATH']}"})

    def test_fails_when_git_does_not_list_the_files(self) -> None:
        self.assertNotEqual(self.run_lint("git").returncode, 0)

    def test_fails_when_the_files_for_clang_tidy_are_not_found_out(self) -> None:
        self.assertNotEqual(self.run_lint("python3").returncode, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
