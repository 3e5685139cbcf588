#!/usr/bin/env python3
"""Changes every condition, call, comparison and number of a folder, one at a time, and shows the changes that no test notices.

  scripts/mutate operator/plan                           with the unit tests of tests/operator/plan
  scripts/mutate operator/plan --tests simulation_test   with these tests of ctest as well
  scripts/mutate worker/train --sample 200               only 200 of the changes, drawn by lot

All changes (mutants) of the folder are built into the same programs, and a variable of the environment switches one on. So the folder is compiled
once. Each test case runs once without a mutant, to see which mutants could make a difference to it; only these cases then run with the mutant.
A mutant is killed when a case fails, crashes or outlasts its time. One that survives shows a weak test, code without a purpose, or a change that
means the same: read them. Needs `scripts/setup mutate`. The table is also written to build/mutate/results.json.
Exit status: 0 all that were tried were killed, 1 some survived, 2 the tests cannot be built or fail without a mutant.
"""

import argparse
import concurrent.futures
import dataclasses
import hashlib
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile

from mutation import Mutant, key, rewrite
from tree_copy import SOURCE, copy_tree, locked

FOLDER = SOURCE / "build/mutate"
TREE = FOLDER / "tree"
TIME = re.compile(r"^\[ +(?:OK|FAILED|SKIPPED) +\] .*\((\d+) ms\)$", re.MULTILINE)  # GoogleTest's line about a case.
ERROR = re.compile(r"^([\w./-]+\.cpp):(\d+):(?:\d+:)? (?:fatal )?(?:error|note|  required)", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Case:
    program: str
    folder: str
    environment: tuple[tuple[str, str], ...]
    name: str  # Suite.Name


@dataclasses.dataclass
class Run:
    case: Case
    passed: bool
    seconds: float
    reached: set[int]


class Failure(Exception):
    """What keeps the mutants from being tried."""


def sources(folders: list[str]) -> list[str]:
    listing = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *folders], cwd=SOURCE, check=True, capture_output=True, text=True)
    found = [name for name in listing.stdout.splitlines() if name.endswith(".cpp")]
    if not found:
        raise Failure(f"no C++ source in {', '.join(folders)}")
    return found


def rewrite_all(names: list[str], refused: set[str]) -> tuple[dict[str, bytes], list[Mutant]]:
    """The rewritten files, and all their mutants."""
    files, mutants = {}, []
    for name in names:
        text, more = rewrite(name, (SOURCE / name).read_bytes(), len(mutants) + 1, refused)
        files[name] = text.encode()
        mutants += more
    return files, mutants


def refused_by(output: str, mutants: list[Mutant]) -> set[str]:
    """Keys of the mutants that the compiler's errors point at: those that begin at the line, or else those around it, or else the last one before
    it, since what is wrong with a function's last statement is said of its closing brace."""
    by_file: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        by_file.setdefault(mutant.file, []).append(mutant)
    refused = set()
    for file, line in {(file, int(line)) for file, line in ERROR.findall(output)}:
        of_file = by_file.get(file, [])
        at = [mutant for mutant in of_file if mutant.line == line] or [mutant for mutant in of_file if mutant.line <= line <= mutant.last_line]
        at = at or [mutant for mutant in of_file if mutant.line < line][-1:]
        refused |= {key(mutant.file, mutant.line, mutant.change) for mutant in at}
    return refused


def configure(preset: str) -> None:
    # With the library's assertions a mutant that reads an empty optional, or beyond the end of a list, ends there.
    subprocess.run(["cmake", "--preset", preset, "-DCMAKE_CXX_FLAGS=-D_GLIBCXX_ASSERTIONS"], cwd=TREE, check=True, stdout=subprocess.DEVNULL)


def build(names: list[str], targets: list[str], preset: str) -> list[Mutant]:
    """Builds the tests with all mutants that compile; returns these."""
    memory = FOLDER / "refused.json"
    known = json.loads(memory.read_text()) if memory.exists() else {}
    digest = {name: hashlib.sha256((SOURCE / name).read_bytes()).hexdigest() for name in names}
    refused = {text for name in names for text in known.get(f"{name} {digest[name]}", [])}
    while True:
        files, mutants = rewrite_all(names, refused)
        copy_tree(TREE, files)
        if not (TREE / "build" / preset / "CMakeCache.txt").exists():
            configure(preset)
        made = subprocess.run(["cmake", "--build", f"build/{preset}", "--target", *targets, "--", "-k", "0"], cwd=TREE, capture_output=True, text=True, check=False)
        if made.returncode == 0:
            for name in names:
                known[f"{name} {digest[name]}"] = sorted(text for text in refused if text.startswith(f"{name}:"))
            memory.write_text(json.dumps(known))
            return mutants
        found = refused_by(made.stdout + made.stderr, mutants)
        if not found - refused:
            raise Failure("the build fails:\n" + "\n".join((made.stdout + made.stderr).splitlines()[-40:]))
        refused |= found
        print(f"  {len(refused)} changes do not compile; building without them", flush=True)


def programs(preset: str, wanted: list[str], folders: list[str]) -> dict[str, dict]:
    """The tests of ctest to run, by name: those called `wanted`, and the unit tests of tests/FOLDER."""
    listing = subprocess.run(["ctest", "--test-dir", f"build/{preset}", "--show-only=json-v1"], cwd=TREE, capture_output=True, text=True, check=True)
    chosen = {}
    for test in json.loads(listing.stdout)["tests"]:
        properties = {entry["name"]: entry["value"] for entry in test.get("properties", [])}
        labels, folder = properties.get("LABELS", []), properties.get("WORKING_DIRECTORY", "")
        inside = any(f"{folder}/".startswith(f"{TREE}/build/{preset}/tests/{name}/") for name in folders)
        if "gtest" in labels and (test["name"] in wanted or inside and "unit" in labels):
            # Before a program is built, ctest names none.
            command = test.get("command", [f"{folder}/{test['name']}"])
            chosen[test["name"]] = {"command": command[0], "folder": folder, "environment": properties.get("ENVIRONMENT", [])}
    unknown = set(wanted) - set(chosen)
    if unknown or not chosen:
        raise Failure(f"no test of GoogleTest is called {', '.join(sorted(unknown))}" if unknown else f"tests/{folders[0]} has no unit test: name some with --tests")
    return chosen


def cases_of(program: dict) -> list[Case]:
    listing = subprocess.run([program["command"], "--gtest_list_tests"], cwd=program["folder"], capture_output=True, text=True, check=True)
    found, suite = [], ""
    for line in listing.stdout.splitlines():
        name = line.split("#")[0].rstrip()
        if not name.startswith(" ") and name.endswith("."):
            suite = name
        elif name.startswith("  ") and "DISABLED_" not in suite + name:
            found.append(Case(program["command"], program["folder"], tuple(entry.split("=", 1) for entry in program["environment"]), suite + name.strip()))
    return found


def run_cases(cases: list[Case], seconds: float, **environment: str) -> tuple[str, float]:
    """Runs cases of one program; returns what failed ("" when nothing did), and how long the cases took, without the program's start."""
    output = ""
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        process = subprocess.Popen([cases[0].program, f"--gtest_filter={':'.join(case.name for case in cases)}", "--gtest_fail_fast"],
                                   cwd=cases[0].folder, env={**os.environ, **dict(cases[0].environment), "TMPDIR": folder, **environment},
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            output = process.communicate(timeout=seconds)[0].decode(errors="replace")
            failed = re.search(r"^\[  FAILED  \] ([\w/.]+)", output, re.MULTILINE)
            by = "" if process.returncode == 0 else failed.group(1) if failed else f"{pathlib.Path(cases[0].program).name} ended with {process.returncode}"
        except subprocess.TimeoutExpired:
            by = f"{pathlib.Path(cases[0].program).name} took more than {seconds:.0f} s"
        kill_all(folder)
        process.communicate()
    return by, sum(int(milliseconds) for milliseconds in TIME.findall(output)) / 1000


def kill_all(marker: str) -> None:
    """Kills every process with `marker` in its environment: the program, and what it left behind, also in process groups of its own."""
    for entry in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            if marker.encode() in entry.read_bytes():
                os.kill(int(entry.parent.name), signal.SIGKILL)
        except OSError:  # It has ended, or is another user's.
            pass


def without_mutant(case: Case, count: int) -> Run:
    with tempfile.NamedTemporaryFile(prefix="mutate-") as file:
        file.truncate(count + 1)
        by, seconds = run_cases([case], 300, MUTATION_REACHED=file.name)
        file.seek(0)
        return Run(case, not by, seconds, {number for number, byte in enumerate(file.read()) if byte})


def try_one(mutant: Mutant, runs: list[Run], budget: float) -> str:
    """What killed the mutant; "" when nothing did. The quickest cases run first; those that `budget` seconds do not reach are left out."""
    reaching = sorted((run for run in runs if mutant.number in run.reached), key=lambda run: run.seconds)
    by_program: dict[str, list[Run]] = {}
    spent = 0.0
    for run in reaching:
        spent += run.seconds
        if spent > budget and by_program:
            break
        by_program.setdefault(run.case.program, []).append(run)
    for group in by_program.values():
        by, _ = run_cases([run.case for run in group], 10 + 5 * sum(run.seconds for run in group), MUTATION_ACTIVE=str(mutant.number))
        if by:
            return by
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/mutate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="FOLDER", help="folders or sources, from the root of the tree")
    parser.add_argument("--tests", nargs="+", default=[], metavar="NAME", help="further tests of ctest")
    parser.add_argument("--sample", type=int, metavar="N", help="try so many mutants, drawn by lot")
    parser.add_argument("--seed", type=int, default=0, help="for --sample (default: 0)")
    parser.add_argument("--budget", type=float, default=30, metavar="SECONDS", help="tests of about this length run for one mutant (default: 30)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="programs that run at once (default: one for each processor)")
    parser.add_argument("--preset", default="release", help="the CMake preset to build with (default: release)")
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    with locked(FOLDER / "lock"):
        return mutate(options)


def mutate(options: argparse.Namespace) -> int:
    names = sources(options.folders)
    copy_tree(TREE, {})
    configure(options.preset)
    folders = [name if (SOURCE / name).is_dir() else str(pathlib.Path(name).parent) for name in options.folders]
    tests = programs(options.preset, options.tests, folders)
    print(f"building {', '.join(tests)}", flush=True)
    mutants = build(names, list(tests), options.preset)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        cases = [case for program in tests.values() for case in cases_of(program)]
        runs = list(pool.map(lambda case: without_mutant(case, len(mutants)), cases))
        failing = [run.case.name for run in runs if not run.passed]
        if failing:
            raise Failure(f"these tests fail without a mutant: {', '.join(failing)}")
        reached = set().union(*(run.reached for run in runs))
        unreached = [mutant for mutant in mutants if mutant.number not in reached]
        tried = [mutant for mutant in mutants if mutant.number in reached]
        print(f"{len(mutants)} mutants; {len(unreached)} make no difference to any of the {len(cases)} cases, which take {sum(run.seconds for run in runs):.0f} s", flush=True)
        if options.sample is not None and options.sample < len(tried):
            tried = sorted(random.Random(options.seed).sample(tried, options.sample), key=lambda mutant: mutant.number)
        survivors = []
        for mutant, by in zip(tried, pool.map(lambda mutant: try_one(mutant, runs, options.budget), tried)):
            if not by:
                survivors.append(mutant)
                print(f"survived   {mutant.file}:{mutant.line}: {mutant.change}", flush=True)
    for mutant in unreached:
        print(f"no test    {mutant.file}:{mutant.line}: {mutant.change}")
    table = [{**dataclasses.asdict(mutant), "outcome": outcome} for outcome, some in (("survived", survivors), ("no test", unreached)) for mutant in some]
    (FOLDER / "results.json").write_text(json.dumps(table, indent=2))
    print(f"{len(tried) - len(survivors)} killed, {len(survivors)} survived, {len(unreached)} without a test")
    return 1 if survivors or unreached else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        print(f"error: {failure}", file=sys.stderr)
        sys.exit(2)
