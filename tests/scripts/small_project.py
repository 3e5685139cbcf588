"""A project of a few files, on which the tests of scripts/mutants and scripts/mutate run these."""

import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]


def make_project(test: unittest.TestCase, copied: list[str], files: dict[str, str]) -> pathlib.Path:
    """The folder of a project with a preset called release, gone with `test`: `copied` from this tree, and `files` with their texts."""
    folder = tempfile.TemporaryDirectory()
    test.addCleanup(folder.cleanup)
    project = pathlib.Path(folder.name)
    for name in ("scripts", "tests/mutants"):
        (project / name).mkdir(parents=True)
    for name in copied:
        shutil.copy(SOURCE / name, project / name)
    presets = [{"name": "release", "generator": "Ninja", "binaryDir": "${sourceDir}/build/release"}]
    (project / "CMakePresets.json").write_text(json.dumps({"version": 6, "configurePresets": presets}))
    (project / ".gitignore").write_text("/build/\n__pycache__/\n")
    for name, text in files.items():
        (project / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    return project
