#!/usr/bin/env python3
"""The layout's rules that a compiler does not check, on this tree; rules_test.py shows that each rule finds what breaks it.
Usage: tidy_test.py SOURCE_FOLDER BUILD_FOLDER"""

import json
import pathlib
import subprocess
import sys
import unittest

from layout import Layout, count_arrows
from rules import RULES, arrows_out_of_table, differences_to_the_build, torch_out_of_place

SOURCE = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 2 else pathlib.Path.cwd()
BUILD = pathlib.Path(sys.argv[2]).resolve() if len(sys.argv) > 2 else SOURCE / "build/release"


def read_tree() -> dict[str, str]:
    listing = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.cpp", "*.hpp", "*.py", "*.sh", "*.yaml",
                              "*.cmake", "*CMakeLists.txt"], cwd=SOURCE, check=True, capture_output=True, text=True).stdout
    return {path: (SOURCE / path).read_text() for path in sorted(set(listing.split("\0"))) if path and (SOURCE / path).exists()}


# Violations that this tree's own tables must forbid: a file, a line that is added to it, and the rule that must find it.
FORBIDDEN = [
    *((f"worker/{folder}/CMakeLists.txt", f"target_link_libraries(trainyard_{folder} PRIVATE torch::cpu)", torch_out_of_place)
      for folder in ("rank", "launcher", "clean_up")),
    ("checkpoint/run/run.cpp", "#include <torch/types.h>", torch_out_of_place),
    *((file, '#include "worker/rank/environment.hpp"', arrows_out_of_table)
      for file in ("cli/run.cpp", "operator/plan/decide.cpp", "local/process_kubelet.cpp", "checkpoint/run/run.cpp", "storage/store.cpp",
                   "tests/cli/hosts_test.cpp", "tests/operator/plan/restart_test.cpp", "tests/docs/page.cpp", "bench/line/line_bench.cpp")),
    ("api/training_job.cpp", '#include "operator/plan/plan.hpp"', arrows_out_of_table),
    ("common/text.cpp", '#include "api/contract.hpp"', arrows_out_of_table),
]


class Tree(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls) -> None:
        cls.layout = Layout(read_tree())

    def test_the_build_is_as_it_is_read_here(self) -> None:
        commands = (BUILD / "compile_commands.json").read_text()
        batches = {command["file"]: pathlib.Path(command["file"]).read_text() for command in json.loads(commands) if "_batch_" in command["file"]}
        self.assertEqual(list(differences_to_the_build(self.layout, commands, batches, str(SOURCE))), [])

    def test_the_tables_forbid_what_they_must(self) -> None:
        files = read_tree()
        for file, line, rule in FORBIDDEN:
            with self.subTest(file=file, line=line):
                self.assertNotEqual(list(rule(Layout(files | {file: f"{files[file]}\n{line}\n"}))), [])

    def test_arrows_between_top_folders(self) -> None:
        counts = count_arrows(self.layout)
        print("\n".join(f"{begin:>9} -> {end:<9}{count:4}" for (begin, end), count in counts.items()))
        self.assertEqual(set(counts), {ends for ends, arrow in self.layout.tables.arrows.items() if not arrow.is_link})


def test_of(rule):
    def test(self: Tree) -> None:
        self.assertEqual(list(rule(self.layout)), [])
    return test


for each in RULES:
    setattr(Tree, f"test_no_{each.__name__}", test_of(each))

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
