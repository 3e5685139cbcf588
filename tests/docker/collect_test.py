#!/usr/bin/env python3
"""Tests docker/collect and docker/programs. Usage: collect_test.py SOURCE_FOLDER"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else ".").resolve()


def run(*command: object) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)


class CollectTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.library = self.build_library(self.folder / "libpart.so")
        self.program = self.build_program(self.library)

    def build_library(self, path: pathlib.Path) -> pathlib.Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        (self.folder / "part.c").write_text("int part(void) { return 0; }\n")
        self.compile("-shared", "-fPIC", f"-Wl,-soname,{path.name}", "-o", path, self.folder / "part.c")
        return path

    def build_program(self, library: pathlib.Path) -> pathlib.Path:
        program = self.folder / "program"
        (self.folder / "program.c").write_text("int part(void);\nint main(void) { return part(); }\n")
        self.compile("-o", program, self.folder / "program.c", library, f"-Wl,-rpath,{library.parent}")
        return program

    def compile(self, *arguments: object) -> None:
        done = run("cc", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_programs_and_the_libraries_that_the_base_lacks_are_laid_out(self) -> None:
        out = self.folder / "out"
        done = run(SOURCE / "docker/collect", out, self.program)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()),
                         ["bin/program", "certificates/ca-certificates.crt", "lib/libpart.so"])

    def test_a_library_that_is_not_there_is_named_and_fails(self) -> None:
        self.library.unlink()
        for words in ([self.folder / "out"], ["--list"]):
            done = run(SOURCE / "docker/collect", *words, "/bin/true", self.program)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("libpart.so => not found", done.stderr)
            self.assertIn(f"error: {self.program} lacks these libraries", done.stderr)
            self.assertEqual(done.stdout, "")
        self.assertFalse((self.folder / "out").exists())

    def test_cuda_adds_what_its_libraries_open_by_name(self) -> None:
        wheels = self.folder / "nvidia"
        opened = self.build_library(wheels / "cudnn/lib/libcudnn_ops.so.9")
        program = self.build_program(self.build_library(wheels / "cu13/lib/libcudart.so.13"))
        # Many programs, so that ldd still writes after libcudart was found.
        done = run(SOURCE / "docker/collect", "--variant", "cuda", "--list", *[program] * 20)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(str(opened), done.stdout.splitlines())

    def test_cuda_without_its_runtime_is_an_error(self) -> None:
        done = run(SOURCE / "docker/collect", "--variant", "cuda", "--list", self.program)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"error: none of {self.program} loads libcudart", done.stderr)


class ProgramsTest(unittest.TestCase):
    def test_every_image_has_a_list(self) -> None:
        worker = ["trainyard-worker", "trainyard-rank", "trainyard-store", "trainyard-clean-up"]
        def listed(*words: str) -> list[str]:
            return run(SOURCE / "docker/programs", *words).stdout.split()

        self.assertEqual(listed("operator"), ["trainyard-operator"])
        self.assertEqual(listed("worker"), worker)
        self.assertEqual(listed("worker", "cuda"), [*worker, "libtrainyard_cuda.so"])
        self.assertEqual(run(SOURCE / "docker/programs", "operator", "cuda").returncode, 2)


if __name__ == "__main__":
    unittest.main()
