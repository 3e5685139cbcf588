#!/usr/bin/env python3
"""The layout's rules that a compiler does not check. Usage: tidy_test.py SOURCE_FOLDER BUILD_FOLDER"""

import json
import pathlib
import re
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 2 else pathlib.Path.cwd()
BUILD = pathlib.Path(sys.argv[2]).resolve() if len(sys.argv) > 2 else SOURCE / "build/release"
LINES_MAX = 500
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)

# Folders whose library has another name than the folder's last part, and folders that are programs or public headers of a library.
LIBRARY_OF = {"worker/include/trainyard": "train"}


def tracked(*patterns: str) -> list[pathlib.Path]:
    listing = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns], cwd=SOURCE, check=True,
                             capture_output=True, text=True).stdout.split("\n")
    return [pathlib.Path(line) for line in listing if line and (SOURCE / line).exists()]


def includes(path: pathlib.Path) -> list[tuple[str, bool]]:
    """(what is included, whether by quotes) in order."""
    return [(quoted or angled, bool(quoted)) for quoted, angled in INCLUDE.findall((SOURCE / path).read_text())]


def link_lines() -> dict[str, set[str]]:
    """For every library of ours, the libraries of ours that it may see: its link lines, followed to the end."""
    direct: dict[str, set[str]] = {}
    for lists in tracked("*CMakeLists.txt"):
        text = re.sub(r"#.*", "", (SOURCE / lists).read_text())
        for name, body in re.findall(r"trainyard_(?:torch_)?library\(\s*(\w+)([^)]*)\)", text):
            direct[name] = set(re.findall(r"trainyard_(\w+)", body)) - {"headers", "torch_headers", "test_headers", "compiler"}
    closed = {}
    for name in direct:
        seen, open_names = set(), [name]
        while open_names:
            current = open_names.pop()
            if current not in seen:
                seen.add(current)
                open_names += direct.get(current, ())
        closed[name] = seen
    return closed


def library_of(folder: pathlib.PurePath) -> str:
    return LIBRARY_OF.get(folder.as_posix(), folder.name)


def sources_of_ours() -> list[pathlib.Path]:
    return [path for path in tracked("*.cpp", "*.hpp") if path.parts[0] not in ("tests", "bench", "examples", "docker")]


class Layout(unittest.TestCase):
    def test_includes_follow_the_link_lines(self):
        visible = link_lines()
        for path in sources_of_ours():
            library = library_of(path.parent)
            if library not in visible or path.name.endswith("main.cpp"):
                continue  # Programs link what they like.
            for name, is_quoted in includes(path):
                target = library_of(pathlib.PurePosixPath(name).parent)
                if is_quoted and target in visible:
                    self.assertIn(target, visible[library], f"{path} includes {name}, but {library} does not link {target}")

    def test_plan_sees_only_resource_and_common_and_no_effects(self):
        for path in tracked("operator/plan/*.cpp", "operator/plan/*.hpp"):
            for name, is_quoted in includes(path):
                if is_quoted:
                    self.assertRegex(name, r"^(operator/plan|operator/resource|common)/", f"{path} includes {name}")
                    self.assertNotIn(name, ("common/logging.hpp", "common/clock_edge.hpp"), f"{path} logs")
                else:
                    self.assertNotIn(name, ("thread", "mutex", "condition_variable", "future", "fstream", "iostream", "random", "filesystem"),
                                     f"{path} includes <{name}>")
            self.assertNotRegex((SOURCE / path).read_text(), r"_clock::now|SystemClock", f"{path} reads a clock")

    def test_torch_stays_in_the_worker_and_out_of_its_launcher(self):
        for path in sources_of_ours():
            if path.parts[0] == "worker" and path.parts[1] != "launcher":
                continue
            for name, _ in includes(path):
                self.assertNotRegex(name, r"^(torch|ATen|c10|caffe2)/", f"{path} includes {name}")

    def test_own_header_comes_first(self):
        for path in sources_of_ours():
            header = path.with_suffix(".hpp")
            if path.suffix == ".cpp" and (SOURCE / header).exists():
                self.assertEqual(includes(path)[0][0], header.as_posix(), f"{path} does not include its own header first")

    def test_every_header_begins_with_pragma_once(self):
        for path in tracked("*.hpp"):
            self.assertIn("#pragma once", (SOURCE / path).read_text().split("\n\n")[0], f"{path} has no #pragma once")

    def test_every_source_is_built_by_a_target(self):
        commands = json.loads((BUILD / "compile_commands.json").read_text())
        built = {pathlib.Path(command["file"]).resolve() for command in commands}
        batches = {path for path in built if "_batch_" in path.name}
        built |= {SOURCE / name for path in batches for name, _ in includes(path)}
        with_worker = any(path.is_relative_to(SOURCE / "worker/headers") for path in built)
        for path in tracked("*.cpp"):
            if path.parts[0] in ("docker", "examples"):
                continue
            needs_worker = "worker" in path.parts and "launcher" not in path.parts or path.is_relative_to("bench/storage")
            if needs_worker and not with_worker:
                continue
            if path.parent.name == "cuda":
                continue  # Built only where the CUDA headers are.
            self.assertIn(SOURCE / path, built, f"no target builds {path}")

    def test_files_stay_small(self):
        for path in tracked("*.cpp", "*.hpp"):
            count = len((SOURCE / path).read_text().splitlines())
            self.assertLessEqual(count, LINES_MAX, f"{path} has {count} lines: is it one concept?")

    def test_no_test_is_skipped_in_ci(self):
        for path in tracked("tests/*.cpp", "tests/*.hpp"):
            if path.as_posix() != "tests/skips.hpp":
                self.assertNotRegex((SOURCE / path).read_text(), r"\b(GTEST_SKIP|DISABLED_)", f"{path}: use tests/skips.hpp")

    def test_nothing_is_left_open(self):
        for path in tracked("*.cpp", "*.hpp", "*.py", "*.sh", "*.yaml", "*.cmake", "*CMakeLists.txt"):
            if path.name != "tidy_test.py":
                self.assertNotRegex((SOURCE / path).read_text(), r"\b(TODO|FIXME|XXX|HACK)\b", f"{path} leaves something open")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
