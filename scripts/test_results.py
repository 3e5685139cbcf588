#!/usr/bin/env python3
"""Counts the results of a test run, and prints what failed or was skipped.

Usage: test_results.py FOLDER STAGES LIST

STAGES is scripts/stages.txt, and LIST names the stages of it that must have run. Each stage leaves in FOLDER/<stage>/
  exit-status      the exit status of its command; a stage that was killed leaves none
  expected.json    for ctest: `ctest --show-only=json-v1`, the tests that it was to run
  ctest.xml        for ctest: `ctest --output-junit`
  <test>.xml       the cases of one GoogleTest program (GTEST_OUTPUT), or pytest's report

A run fails when a case failed, when a stage of LIST is missing or left no exit status, when its exit status is not 0 or it reported fewer tests
than STAGES asks for, and when a test that ctest should run left no result. With CI=true a skipped case is a failure: a check that could not run
has not been made. The last line is `N passed, N failed`; exits 1 when anything failed, and when nothing ran at all.
"""

import json
import os
import pathlib
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator

Case = tuple[str, str, str]  # name, outcome (passed, failed, skipped), text

GOOGLE_TEST_LABEL = "gtest"  # cmake/targets.cmake sets it.


def read_stage_list(path: pathlib.Path, chosen: str) -> dict[str, int]:
    """The stages of list `chosen`: name -> least number of tests."""
    rows = [line.split() for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]
    stages = {name: int(least) for name, least, *lists in rows if chosen in lists}
    if not stages:
        raise SystemExit(f"error: {path} has no stage of the list {chosen}")
    return stages


def read_cases(report: pathlib.Path) -> list[Case]:
    """The cases of one report by GoogleTest or pytest; none where the program died while it wrote the report."""
    try:
        root = ElementTree.parse(report).getroot()
    except ElementTree.ParseError:
        return []
    cases = []
    for case in root.iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        failure, skipped = case.find("failure"), case.find("skipped")
        if failure is None:
            failure = case.find("error")  # pytest's word for a fixture that failed.
        if failure is not None:
            cases.append((name, "failed", failure.get("message") or ""))
        elif skipped is not None or case.get("result") == "skipped":
            cases.append((name, "skipped", (skipped.get("message") if skipped is not None else "") or ""))
        elif case.get("status") != "notrun":
            cases.append((name, "passed", ""))
    return cases


def labels(test: dict) -> list[str]:
    values = [entry["value"] for entry in test.get("properties", []) if entry["name"] == "LABELS"]
    return values[0] if values else []


def judge_ctest(stage: pathlib.Path) -> Iterator[Case]:
    """The cases of a stage that ctest ran, and a failed case for each test that was expected and left no result."""
    expected = {test["name"]: labels(test) for test in json.loads((stage / "expected.json").read_text())["tests"]}
    report = stage / "ctest.xml"
    if not report.exists():
        yield "ctest", "failed", "ctest left no report: it was killed, or no test matched"
        return
    results = {case.get("name"): case for case in ElementTree.parse(report).getroot().iter("testcase")}
    for test in sorted(expected.keys() - results.keys()):
        yield test, "failed", "ctest was to run it, and its report does not name it"
    for test, result in results.items():
        cases_path = stage / f"{test}.xml"
        cases = read_cases(cases_path) if cases_path.exists() else []
        yield from ((f"{test}: {name}", outcome, text) for name, outcome, text in cases)
        status = result.get("status")
        if status == "run":
            if cases:
                continue
            if GOOGLE_TEST_LABEL in expected.get(test, []):
                yield test, "failed", "it ended with exit status 0 and reported no case: it left before its end"
            else:
                yield test, "passed", ""
        elif status in ("notrun", "disabled"):
            skipped = result.find("skipped")
            reason = skipped.get("message", "") if skipped is not None else ""
            # ctest says `notrun` both of a test that skipped itself and of one whose program is missing.
            yield test, "skipped" if reason.startswith("SKIP_") else "failed", reason or "ctest did not run it"
        elif not any(outcome == "failed" for _, outcome, _ in cases):  # A crash, a sanitizer's report or a time-out: no case names it.
            output = result.findtext("system-out") or ""
            yield test, "failed", "\n".join(output.splitlines()[-40:])


def judge_stage(stage: pathlib.Path, least: int) -> Iterator[Case]:
    """Every case of a stage, and a failed case for whatever is wrong with the stage itself."""
    exit_status = stage / "exit-status"
    if not exit_status.exists():
        yield "the stage", "failed", "it did not run to its end: it never began, or it was killed"
        return
    if (stage / "expected.json").exists():
        cases = list(judge_ctest(stage))
    else:
        cases = [case for report in sorted(stage.glob("*.xml")) for case in read_cases(report)]
    yield from cases
    status = exit_status.read_text().strip()
    if status != "0" and not any(outcome == "failed" for _, outcome, _ in cases):
        yield "the stage", "failed", f"its exit status is {status or 'missing'}, and none of its tests failed"
    if len(cases) < least:
        yield "the stage", "failed", f"it reported {len(cases)} tests, and scripts/stages.txt asks for {least} at least"


def main() -> int:
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    folder = pathlib.Path(sys.argv[1])
    stages = read_stage_list(pathlib.Path(sys.argv[2]), sys.argv[3])
    is_ci = os.environ.get("CI") == "true"
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    ran = {path.name for path in folder.iterdir() if path.is_dir()}
    for name in [*stages, *sorted(ran - stages.keys())]:
        for case, outcome, text in judge_stage(folder / name, stages.get(name, 0)):
            if outcome == "skipped":
                print(f"skipped: {name}: {case}: {text.strip() or 'no reason given'}")
                outcome = "failed" if is_ci else "skipped"
            elif outcome == "failed":
                print(f"FAILED: {name}: {case}\n{text}")
            counts[outcome] += 1
    skipped = f", {counts['skipped']} skipped" if counts["skipped"] else ""
    print(f"{counts['passed']} passed, {counts['failed']} failed{skipped}")
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
