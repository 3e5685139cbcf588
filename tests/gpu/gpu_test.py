#!/usr/bin/env python3
"""scripts/gpu packs a folder that is small and whole, and says in one line why it cannot run. Usage: gpu_test.py SOURCE_FOLDER"""

import array
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else ".").resolve()
sys.path.insert(0, str(SOURCE / "tests/gpu"))

import machine  # noqa: E402
import stall  # noqa: E402


class GpuTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def gpu(self, *words: object, tree: pathlib.Path = SOURCE, python: str = "python3") -> subprocess.CompletedProcess:
        environment = {**os.environ, "PYTHON": python, "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run([tree / "scripts/gpu", *map(str, words)], capture_output=True, text=True, check=False, env=environment)

    def a_python(self, script: str) -> str:
        """A program that answers as Python does when it is asked about torch."""
        path = self.folder / "python"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return str(path)

    def assert_one_error(self, done: subprocess.CompletedProcess, *words: str) -> None:
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("error: "), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_a_pack_is_small_and_has_all_that_the_machine_lacks(self) -> None:
        pack = self.folder / "pack"
        done = self.gpu("pack", pack)
        self.assertEqual(done.returncode, 0, done.stderr)
        files = {str(path.relative_to(pack)) for path in pack.rglob("*") if path.is_file()}
        self.assertLessEqual({"bin/trainyard-worker", "bin/trainyard-rank", "bin/trainyard-store", "bin/libtrainyard_cuda.so", "scripts/gpu",
                              "tests/gpu/checks.py", "tests/gpu/stall.py", "bench/training/python_ddp.py", "bench/training/peer_models.py",
                              "lib/libfmt.so.9", "lib/libtrainyard.so.0.1"}, files)
        self.assertFalse([name for name in files if "torch" in name or "nccl" in name], "torch and NCCL are there")
        self.assertLessEqual(sum((pack / name).stat().st_size for name in files), 60_000_000)
        self.assert_one_error(self.gpu("test", tree=pack, python="/nowhere/python"), "/nowhere/python cannot be started", "PYTHON")
        self.assert_one_error(self.gpu("pack", pack), "is not empty")

    def test_a_checkout_that_is_not_built_says_what_to_build(self) -> None:
        for path in ("scripts/gpu", "tests/gpu/machine.py", "tests/gpu/checks.py", "tests/gpu/speed.py", "tests/gpu/stall.py"):
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_bytes((SOURCE / path).read_bytes())
        (self.folder / "scripts/gpu").chmod(0o755)
        self.assert_one_error(self.gpu("pack", self.folder / "pack", tree=self.folder), "trainyard-rank", "cmake --build build/release")

    def test_a_machine_without_what_it_needs_is_told_so_in_one_line(self) -> None:
        facts = {"version": "2.11.0+cu130", "folder": "/t", "gpus": 0, "gpu": ""}
        no_torch = "echo 'Traceback:' >&2; echo \"ModuleNotFoundError: No module named 'torch'\" >&2; exit 1"
        for command in (["test"], ["bench"], ["bench", 2]):
            self.assert_one_error(self.gpu(*command, python=self.a_python(no_torch)), "cannot import torch", "No module named 'torch'")
            older = json.dumps({**facts, "version": "2.9.1"})
            self.assert_one_error(self.gpu(*command, python=self.a_python(f"echo '{older}'")), "has torch 2.9.1", "built for 2.11.")
            blind = self.a_python(f"echo a warning; echo '{json.dumps(facts)}'")
            self.assert_one_error(self.gpu(*command, python=blind), "sees no GPU on this machine", "nvidia-smi")

    def test_a_stall_is_of_saves_in_the_middle_that_were_staged_as_the_row_says(self) -> None:
        def saved(milliseconds: int, staging: str) -> dict:
            return {"message": "checkpoint saved", "stallSeconds": milliseconds / 1000, "staging": staging}

        lines = [saved(900, "deviceCopy"), {"message": "progress"}, saved(3, "deviceCopy"), saved(120, "pinnedBuffers"), saved(4, "deviceCopy"),
                 saved(2000, "deviceCopy")]
        self.assertEqual(stall.stalls_of(lines, is_memory_free=True), [3, 4])
        self.assertEqual(stall.stalls_of(lines, is_memory_free=False), [120])
        with self.assertRaisesRegex(machine.CannotRun, "no checkpoint was staged by pinnedBuffers .*deviceCopy"):
            stall.stalls_of(lines[:3] + lines[-1:], is_memory_free=False)

    def test_the_stalls_tokens_are_in_gpt2s_vocabulary(self) -> None:
        stall.write_tokens(self.folder)
        tokens = array.array("H", (self.folder / "train.bin").read_bytes())
        self.assertGreater(len(tokens), 100 * stall.SEQUENCE_LENGTH)
        self.assertLess(max(tokens), 50_257)

    def test_other_words_get_the_usage(self) -> None:
        for words in ([], ["tests"], ["bench", "0"], ["bench", "many"], ["test", "--gpu"]):
            done = self.gpu(*words)
            self.assertEqual(done.returncode, 2)
            self.assertIn("scripts/gpu pack [FOLDER]", done.stderr)


if __name__ == "__main__":
    unittest.main()
