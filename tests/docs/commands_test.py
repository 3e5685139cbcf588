#!/usr/bin/env python3
"""Every command of the pages below is run by a test. Usage: commands_test.py SOURCE_FOLDER [--list]

--list prints each command with the test that runs it, or with the reason why none does.
"""

import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(sys.argv[1]).resolve()

PAGES = ("CONTRIBUTING.md", "docs/extending.md", "docs/install.md", "docs/metrics.md", "docs/python.md", "docs/reference.md", "docs/security.md",
         "docs/troubleshooting.md")
# The languages of blocks: those that are commands, and those that are not.
COMMANDS, CODE = ("sh", "dockerfile"), ("cpp", "python", "yaml")
# In a sentence, such a program's name with a word behind it is a command, and so is each of our own scripts.
PROGRAMS = ("apt", "apt-get", "bash", "buildah", "cmake", "ctest", "docker", "git", "helm", "kubectl", "pip", "podman", "python3", "sh", "skopeo",
            "ssh", "sudo", "torchrun", "trainyard", "trainyard-operator", "trainyard-worker")
SCRIPTS = re.compile(r"(?:\./)?((?:docker|scripts)/[\w-]+|tests/e2e/run)")


@dataclasses.dataclass(frozen=True)
class Test:
    """A file that runs commands, and the words there by which it does."""

    file: str
    words: str


PAGES_TEST, EXAMPLES_TEST, CONTRIBUTING_TEST = "tests/e2e/test_pages.py", "tests/docs/python_examples_test.cpp", "tests/docs/contributing_test.py"

# page: {words that a block of commands has: the test that takes it from the page}
BLOCKS = {
    "CONTRIBUTING.md": {"": Test(CONTRIBUTING_TEST, 'SOURCE / "CONTRIBUTING.md"')},
    "docs/install.md": {"": Test(PAGES_TEST, 'push, install, upgrade, roll_back, uninstall, remove = commands_of("docs/install.md")')},
    "docs/metrics.md": {"": Test(PAGES_TEST, '(commands,) = commands_of("docs/metrics.md")')},
    "docs/security.md": {"": Test(PAGES_TEST, '(commands,) = commands_of("docs/security.md")')},
    "docs/troubleshooting.md": {"": Test(PAGES_TEST, 'page = "docs/troubleshooting.md"')},
    "docs/python.md": {
        "examples/": Test(EXAMPLES_TEST, "ResumeAfterAKillAndAfterSigterm"),
        "--nproc 8": Test(EXAMPLES_TEST, "EightProcessesOfAScriptMeet"),
        "docker build": Test(PAGES_TEST, 'for block in commands_of("docs/python.md") if "docker build" in block'),
        "COPY train.py": Test(PAGES_TEST, 'commands_of("docs/python.md", "dockerfile")[0]'),
    },
}

# page: {first word of the commands in its sentences: the test that takes all of these from the page}
SENTENCES = {
    "docs/extending.md": {"trainyard": Test(PAGES_TEST, '"docs/extending.md"')},
    "docs/install.md": {program: Test(PAGES_TEST, f'spans_of("docs/install.md", "{program}")') for program in ("helm", "kubectl", "trainyard")},
    "docs/python.md": {program: Test(PAGES_TEST, '"docs/python.md", "docs/reference.md"') for program in ("kubectl", "trainyard")},
    "docs/reference.md": {program: Test(PAGES_TEST, '"docs/python.md", "docs/reference.md"') for program in ("kubectl", "trainyard")},
    "docs/troubleshooting.md": {**{program: Test(PAGES_TEST, 'spans_of(page, "kubectl", "trainyard")') for program in ("kubectl", "trainyard")},
                                "ssh": Test("tests/cli/ssh_run_test.cpp", "TheCommandOfThePageThatTriesAHost")},
}

# Commands in sentences that a test runs without reading them there.
ELSEWHERE = {
    "python3 tests/docs/commands_test.py . --list": Test("tests/docs/commands_test.py", '__file__, SOURCE, "--list"'),
    "cmake --preset debug": Test(CONTRIBUTING_TEST, "cmake --preset debug"),
    "python3 tests/scripts/mutants_test.py .": Test("tests/scripts/CMakeLists.txt", "mutants_test.py ${CMAKE_SOURCE_DIR}"),
    "scripts/bench": Test(CONTRIBUTING_TEST, '"scripts/bench"'),
    "scripts/cluster": Test("tests/e2e/harness/cluster.py", '"scripts/cluster"'),
    "scripts/gpu": Test("tests/gpu/gpu_test.py", "scripts/gpu"),
    "scripts/mutants": Test("tests/scripts/mutants_test.py", "scripts/mutants"),
    "scripts/mutate": Test("tests/scripts/mutate_test.py", "scripts/mutate"),
    "scripts/reference": Test("tests/docs/reference_test.py", "scripts/reference"),
    "scripts/setup build": Test("scripts/test", "scripts/setup all"),
    "scripts/setup cluster": Test("scripts/test", "scripts/setup all"),
    "scripts/test": Test(".ci/run", "scripts/test"),
    "torchrun --nproc-per-node 4": Test(EXAMPLES_TEST, "TorchrunOnACpuPodStartsAsManyProcessesAsItIsTold"),
}

A_BENCH = "A bench takes minutes of a machine that does nothing else. contributing_test sees that scripts/bench lists it."
# Commands, or the first lines of blocks, that no test runs, and why.
NOT_RUN = {
    "docs/extending.md": {"scripts/bench accuracy": A_BENCH, "scripts/bench throughput": A_BENCH},
    "CONTRIBUTING.md": {"scripts/bench NAME": A_BENCH},
    "docs/python.md": {"RUN pip install --no-cache-dir lightning": "It begins from PyTorch's image, which has gigabytes. scripts/setup installs "
                                                                   "the packages, and python_examples_test runs them."},
}


@dataclasses.dataclass(frozen=True)
class Command:
    page: str
    line: int
    text: str
    is_block: bool


def commands_of(page: str, text: str) -> list[Command]:
    """The page's commands, in order. ValueError for a block that does not end, or whose language does not say whether it is one."""
    if len(re.findall(r"^ *```", text, re.MULTILINE)) % 2 != 0:
        raise ValueError(f"{page}: a block has no end")
    found, sentences = [], list(text)
    for block in re.finditer(r"^ *```(\w*)\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL):
        line = text.count("\n", 0, block.start()) + 1
        if block[1] not in COMMANDS + CODE:
            raise ValueError(f"{page}:{line}: a block of commands begins with ```sh, another one with one of {', '.join(CODE)}")
        if block[1] in COMMANDS:
            found.append(Command(page, line, block[2], True))
        sentences[block.start():block.end()] = re.sub(r"[^\n]", " ", block[0])
    sentences = "".join(sentences)
    for span in re.finditer(r"`([^`]+)`", sentences):
        words = span[1].split()
        if words and (words[0] in PROGRAMS and len(words) > 1 or SCRIPTS.fullmatch(words[0])):
            found.append(Command(page, sentences.count("\n", 0, span.start()) + 1, " ".join(words), False))
    return sorted(found, key=lambda command: command.line)


def tests_of(command: Command) -> list[Test]:
    if command.is_block:
        return [test for words, test in BLOCKS.get(command.page, {}).items() if words in command.text]
    by_page = SENTENCES.get(command.page, {}).get(command.text.split()[0])
    elsewhere = ELSEWHERE.get(command.text)
    return [test for test in (by_page, elsewhere) if test]


def reason_of(command: Command) -> str | None:
    """The reason why no test runs the command; None where there is none."""
    reasons = NOT_RUN.get(command.page, {})
    if not command.is_block:
        return reasons.get(command.text)
    return next((reason for words, reason in reasons.items() if words in command.text), None)


def faults_of(commands: list[Command]) -> list[str]:
    faults = []
    for command in commands:
        where = f"{command.page}:{command.line}: {command.text.splitlines()[0]}"
        tests, reason = tests_of(command), reason_of(command)
        if not tests and not reason:
            faults.append(f"{where} is run by no test")
        if tests and reason:
            faults.append(f"{where} is run by {tests[0].file}, and in NOT_RUN")
    return faults


def all_commands() -> list[Command]:
    return [command for page in PAGES for command in commands_of(page, (SOURCE / page).read_text())]


class Commands(unittest.TestCase):
    maxDiff = None

    def test_each_is_run_by_a_test_or_named_with_the_reason(self):
        commands = all_commands()
        self.assertGreater(len([command for command in commands if command.is_block]), 20)
        self.assertGreater(len([command for command in commands if not command.is_block]), 50)
        self.assertEqual(faults_of(commands), [])

    def test_each_test_has_the_words_by_which_it_runs_them(self):
        tests = {test for table in (*BLOCKS.values(), *SENTENCES.values(), ELSEWHERE) for test in table.values()}
        self.assertEqual([test for test in tests if test.words not in (SOURCE / test.file).read_text()], [])

    def test_each_line_of_the_tables_has_a_command(self):
        commands = all_commands()
        used = {test for command in commands for test in tests_of(command)}
        self.assertEqual([test for table in (*BLOCKS.values(), *SENTENCES.values(), ELSEWHERE) for test in table.values() if test not in used], [])
        reasons = [reason_of(command) for command in commands]
        self.assertEqual([words for table in NOT_RUN.values() for words, reason in table.items() if reason not in reasons], [])

    def test_the_list_has_each_of_them(self):
        listed = subprocess.run([sys.executable, __file__, SOURCE, "--list"], capture_output=True, text=True, check=True).stdout
        self.assertEqual([command for command in all_commands() if f"{command.page}:{command.line}: {command.text.rstrip()}\n" not in listed], [])
        self.assertIn("\n    not run: A bench takes minutes", listed)

    def test_our_scripts_are_there(self):
        for command in all_commands():
            script = SCRIPTS.match(command.text)
            self.assertTrue(not script or os.access(SOURCE / script[1], os.X_OK), command)


class Faults(unittest.TestCase):
    """The faults that the comparison finds."""

    def faults(self, page: str, text: str) -> list[str]:
        return faults_of(commands_of(page, text))

    def test_a_command_of_a_tests_page_has_none(self):
        self.assertEqual(self.faults("docs/metrics.md", "```sh\nkubectl version\n```\n`trainyard` `kubectl` `scripts/cluster`\n"), [])

    def test_a_block_that_no_test_takes_is_named(self):
        self.assertEqual(self.faults("docs/python.md", "a\n```sh\ntrainyard validate a.yaml\n```\n"),
                         ["docs/python.md:2: trainyard validate a.yaml is run by no test"])

    def test_a_command_in_a_sentence_that_no_test_takes_is_named(self):
        self.assertEqual(self.faults("docs/metrics.md", "```yaml\na: 1\n```\n`helm list -A`,\n`scripts/lint`"),
                         ["docs/metrics.md:4: helm list -A is run by no test", "docs/metrics.md:5: scripts/lint is run by no test"])

    def test_a_reason_is_not_for_what_is_run(self):
        self.assertEqual(self.faults("docs/python.md", "```dockerfile\nCOPY train.py /\nRUN pip install --no-cache-dir lightning\n```\n"),
                         ["docs/python.md:1: COPY train.py / is run by tests/e2e/test_pages.py, and in NOT_RUN"])

    def test_a_block_without_an_end_is_refused(self):
        with self.assertRaisesRegex(ValueError, "docs/metrics.md: a block has no end"):
            commands_of("docs/metrics.md", "```yaml\na: 1\n")

    def test_a_block_without_a_language_is_refused(self):
        with self.assertRaisesRegex(ValueError, "docs/metrics.md:2: a block of commands begins with ```sh"):
            commands_of("docs/metrics.md", "\n```\nkubectl version\n```\n")


def print_list() -> None:
    for command in all_commands():
        tests = tests_of(command)
        how = ", ".join(f"{test.file}: {test.words}" for test in tests) or f"not run: {reason_of(command)}"
        print(f"{command.page}:{command.line}: {command.text.rstrip()}\n    {how}")


if __name__ == "__main__":
    if "--list" in sys.argv:
        print_list()
    else:
        unittest.main(argv=sys.argv[:1])
