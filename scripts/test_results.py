#!/usr/bin/env python3
"""Counts what ctest and GoogleTest left in a results folder, and prints what failed or was skipped.

Usage: test_results.py FOLDER       (FOLDER/<stage>/ctest.xml by `ctest --output-junit`, other *.xml there by GTEST_OUTPUT or pytest,
                                     FOLDER/<stage>/counts "passed failed" by stages that are no ctest)
The last line is `N passed, N failed`. With CI=true a skipped case counts as failed: a machine that cannot run a check has not run it.
Exits 1 when anything failed, and when nothing ran at all.
"""

import os
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def read_stage(stage: pathlib.Path):
    """Yields (name, outcome, text) for every case of one stage; outcome is passed, failed or skipped."""
    cases_by_test: dict[str, list] = {}
    for report in sorted(stage.glob("*.xml")):
        if report.name == "ctest.xml":
            continue
        try:
            root = ElementTree.parse(report).getroot()
        except ElementTree.ParseError:
            continue  # The program died while writing: ctest.xml has it as failed.
        cases = cases_by_test.setdefault(report.stem, [])
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
    ctest = stage / "ctest.xml"
    if not ctest.exists():
        for cases in cases_by_test.values():
            yield from cases
        return
    for case in ElementTree.parse(ctest).getroot().iter("testcase"):
        test, status = case.get("name"), case.get("status")
        cases = cases_by_test.get(test, [])
        if status == "run" and cases:
            yield from ((f"{test}: {name}", outcome, text) for name, outcome, text in cases)
        elif status == "run":
            yield test, "passed", ""
        elif status in ("notrun", "disabled"):
            skipped = case.find("skipped")
            yield test, "skipped", skipped.get("message", "") if skipped is not None else ""
        else:
            failed_cases = [case for case in cases if case[1] == "failed"]
            yield from ((f"{test}: {name}", outcome, text) for name, outcome, text in cases)
            if not failed_cases:  # A crash, a sanitizer's report or a time-out: no case says so itself.
                output = case.findtext("system-out") or ""
                yield test, "failed", "\n".join(output.splitlines()[-40:])


def main() -> int:
    folder = pathlib.Path(sys.argv[1])
    is_ci = os.environ.get("CI") == "true"
    passed = failed = skipped = 0
    for stage in sorted(path for path in folder.iterdir() if path.is_dir()):
        failed_before = failed
        for name, outcome, text in read_stage(stage):
            if outcome == "skipped":
                print(f"skipped: {stage.name}: {name}: {text.strip() or 'no reason given'}")
                outcome = "failed" if is_ci else "skipped"
            elif outcome == "failed":
                print(f"FAILED: {stage.name}: {name}\n{text}")
            passed, failed, skipped = (
                passed + (outcome == "passed"), failed + (outcome == "failed"), skipped + (outcome == "skipped"))
        # What the stage itself says of its end counts where none of its cases says so already.
        counts = stage / "counts"
        if counts.exists() and failed == failed_before:
            stage_passed, stage_failed = map(int, counts.read_text().split())
            passed, failed = passed + stage_passed, failed + stage_failed
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
