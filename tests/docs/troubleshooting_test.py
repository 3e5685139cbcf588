#!/usr/bin/env python3
"""docs/troubleshooting.md has every word that a user can see, and no other. Usage: troubleshooting_test.py SOURCE_FOLDER"""

import pathlib
import re
import sys
import unittest

import yaml

SOURCE = pathlib.Path(sys.argv[1]).resolve()
PAGE = SOURCE / "docs/troubleshooting.md"

# The files with the words of a job's status, its events and its pods' termination messages. Every string literal there that is one CamelCase word
# must be on the page or in OTHER_WORDS, so that the test notices each new reason.
SOURCES = ("operator/manifest/*", "operator/plan/*", "operator/reconcile/*", "operator/manager/*", "api/training_job_status.cpp",
           "worker/rank/*", "worker/launcher/*", "worker/train/*", "worker/clean_up/*", "worker/dist/*",
           "local/remote_run.cpp")

# Other words in these files.
OTHER_WORDS = {
    # Reasons and types that Kubernetes gives; the operator reads them.
    "ContainerCannotRun", "ContainerStatusUnknown", "CreateContainerConfigError", "CreateContainerError", "DeletionByTaintManager",
    "DisruptionTarget", "ErrImageNeverPull", "ErrImagePull", "Evicted", "ImageInspectError", "ImagePullBackOff", "InvalidImageName",
    "NodeAffinity", "NodeLost", "NodeShutdown", "OutOf", "OutOfcpu", "OutOfmemory", "OutOfpods", "PodInitializing", "PodScheduled",
    "Preempting", "RegistryUnavailable", "RunContainerError", "Shutdown", "StartError", "TerminationByKubelet", "UnexpectedAdmissionError",
    "Unknown",
    # Values of fields of the objects that the operator makes.
    "Event", "Exists", "FallbackToLogsOnError", "False", "Memory", "Never", "NoExecute", "NoSchedule", "None", "Normal", "NotIn",
    "OnRootMismatch", "Pod", "RuntimeDefault", "Service", "TrainingJob", "True", "Warning",
    # HTTP, units in sentences, the metric's name of a job without a phase.
    "Authorization", "Bearer", "CPUs", "GPUs", "New",
}

TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*')
WORD = re.compile(r'"([A-Z][A-Za-z]*[a-z][A-Za-z]*)"')


def words_of(text: str) -> set[str]:
    """The string literals of a C++ file that are one CamelCase word; comments apart."""
    return {found[1] for token in TOKEN.findall(text) if (found := WORD.fullmatch(token))}


def read_sources() -> dict[str, str]:
    paths = [path for pattern in SOURCES for path in sorted(SOURCE.glob(pattern)) if path.suffix in (".cpp", ".hpp")]
    return {path.relative_to(SOURCE).as_posix(): path.read_text() for path in paths}


def tables_of(page: str) -> dict[str, list[list[str]]]:
    """Rows of the tables by the heading above them; heads and rules apart."""
    tables: dict[str, list[list[str]]] = {}
    heading, is_body = "", False
    for line in page.split("\n"):
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        is_row = line.startswith("|")
        if is_row and re.fullmatch(r"[|\s-]+", line):
            is_body = True
        elif is_row and is_body:
            tables.setdefault(heading, []).append([cell.strip() for cell in line.strip("|").split("|")])
        elif not is_row:
            is_body = False
    return tables


def coded(cell: str) -> list[str]:
    return re.findall(r"`([A-Za-z0-9]+)`", cell)


def first_words(rows: list[list[str]]) -> list[str]:
    return [word for row in rows for word in coded(row[0])]


def words_on(page: str) -> set[str]:
    """Every word that a table explains: its first column, and the last one of the conditions."""
    tables = tables_of(page)
    words = {word for heading, rows in tables.items() if "trainyard" not in heading for word in first_words(rows)}
    words |= {word for row in tables.get("Conditions", []) for word in coded(row[-1]) if "." not in word}
    return {word for word in words if not word.isdigit()}


def differences(sources: dict[str, str], page: str, others: set[str]) -> list[str]:
    """The faults: words that the page lacks, words that it should not have, and words that the list of others need not have."""
    found = {word: path for path, text in sources.items() for word in words_of(text)}
    explained = words_on(page)
    faults = [f"{word} ({found[word]}) is in no table: add a row, or name it in OTHER_WORDS if no user sees it"
              for word in sorted(found.keys() - explained - others)]
    faults += [f"{word} is explained, and no source has it" for word in sorted(explained - found.keys())]
    faults += [f"{word} is in OTHER_WORDS, and no source has it" for word in sorted(others - found.keys())]
    faults += [f"{word} is in OTHER_WORDS, and explained" for word in sorted(others & explained)]
    return faults


class Troubleshooting(unittest.TestCase):
    maxDiff = None

    def setUp(self) -> None:
        self.sources = read_sources()
        self.page = PAGE.read_text()
        self.tables = tables_of(self.page)
        self.contract = (SOURCE / "api/contract.hpp").read_text()
        self.codes = dict(re.findall(r"inline constexpr int (exit_\w+) =\s*(\d+);", self.contract))

    def test_every_word_that_a_user_can_see_is_explained_and_no_other(self):
        self.assertGreater(len(self.sources), 150)
        self.assertEqual(differences(self.sources, self.page, OTHER_WORDS), [])

    def test_every_exit_code_is_explained(self):
        self.assertGreaterEqual(len(self.codes), 10)
        self.assertEqual(sorted(first_words(self.tables["Exit codes"]), key=int), sorted(self.codes.values(), key=int))

    def test_every_condition_is_explained(self):
        conditions = re.findall(r'string_view condition_\w+ = "(\w+)"', self.sources["operator/plan/conditions.hpp"])
        self.assertGreaterEqual(len(conditions), 12)
        self.assertEqual(sorted(first_words(self.tables["Conditions"])), sorted(conditions))

    def test_phases_and_causes_are_those_of_the_crd(self):
        crd = yaml.safe_load((SOURCE / "crds/trainingjobs.trainyard.dev.yaml").read_text())
        status = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
        self.assertEqual(first_words(self.tables["Phases"]), status["phase"]["enum"])
        self.assertEqual(first_words(self.tables["Causes of a restart"]), status["attempts"]["items"]["properties"]["cause"]["enum"])

    def test_every_event_is_explained(self):
        text = "\n".join(self.sources.values())
        events = set(re.findall(r'\.reason = "(\w+)",\s*\.(?:is_warning|note)\b', text))
        self.assertGreaterEqual(len(events), 7)
        self.assertEqual(set(first_words(self.tables["Events"])), events)

    def test_every_reason_to_wait_is_explained(self):
        named = re.search(r"`reason` is one of: ([^.]+)\.", self.sources["operator/plan/pending_reason.hpp"])[1]
        reasons = re.findall(r"\w+", named.replace("///", ""))
        self.assertGreaterEqual(len(reasons), 14)
        waits = self.tables["Reasons to wait"]
        self.assertEqual(sorted(first_words(waits)), sorted(reasons))

    def test_every_reason_to_fail_is_explained(self):
        plan = "\n".join(text for path, text in self.sources.items() if path.startswith("operator/plan/"))
        failures = set(re.findall(r'\bfail_job\(\s*draft,\s*"(\w+)"|\brefuse\(\s*"(\w+)"', plan))
        failures = {first or second for first, second in failures}
        self.assertGreaterEqual(len(failures), 6)
        deletion = set(re.findall(r'reason_\w+ = "(\w+)"', self.sources["operator/plan/deletion.cpp"]))
        self.assertEqual(set(first_words(self.tables["Reasons to fail"])), failures | deletion)

    def test_a_workers_reason_has_the_exit_code_that_comes_with_it(self):
        row_of = {word: row for row in self.tables["What a worker says"] for word in coded(row[0])}
        pairs = set()
        for path, text in self.sources.items():
            if path.startswith("worker/"):
                pairs |= set(re.findall(r'contract::(exit_\w+),\s*(?:\.reason = )?"(\w+)"', text))
        self.assertGreater(len(pairs), 20)
        for name, reason in sorted(pairs):
            # The last line of a switch that no enumerator reaches.
            if reason != "Failed":
                self.assertRegex(row_of[reason][1], rf"\b{self.codes[name]}\b", f"{reason} comes with {name}")


class Differences(unittest.TestCase):
    """The comparison itself."""

    PAGE = "## Reasons\n\n| reason | what |\n|---|---|\n| `Known` | it |\n\n## Conditions\n\n| c | what | reasons |\n|---|---|---|\n| `Held` | it | `Why` |\n"
    CODE = 'fail("Known"); raise("Held", "Why"); // "Comment"\n'

    def test_a_page_that_has_all_has_no_faults(self):
        self.assertEqual(differences({"a.cpp": self.CODE}, self.PAGE, set()), [])

    def test_a_reason_that_is_on_no_page_is_named_with_its_file(self):
        faults = differences({"a.cpp": self.CODE, "b.cpp": 'x(c ? "Known"\n : "NewOne");'}, self.PAGE, set())
        self.assertEqual(faults, ["NewOne (b.cpp) is in no table: add a row, or name it in OTHER_WORDS if no user sees it"])

    def test_a_word_behind_slashes_in_a_string_is_seen(self):
        self.assertEqual(words_of('open("s3://a", "Seen");  // "NotSeen"'), {"Seen"})

    def test_a_reason_that_went_away_is_named(self):
        self.assertEqual(differences({"a.cpp": 'raise("Held", "Why");'}, self.PAGE, set()), ["Known is explained, and no source has it"])

    def test_words_that_are_left_out_must_be_there_and_unexplained(self):
        self.assertEqual(differences({"a.cpp": self.CODE}, self.PAGE, {"Gone", "Known"}),
                         ["Gone is in OTHER_WORDS, and no source has it", "Known is in OTHER_WORDS, and explained"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
