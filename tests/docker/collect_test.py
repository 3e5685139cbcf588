#!/usr/bin/env python3
"""What docker/collect and docker/programs promise. Usage: collect_test.py SOURCE_FOLDER"""

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
        self.library = self.folder / "libpart.so"
        self.program = self.folder / "program"
        (self.folder / "part.c").write_text("int part(void) { return 0; }\n")
        (self.folder / "program.c").write_text("int part(void);\nint main(void) { return part(); }\n")
        for arguments in (["-shared", "-fPIC", "-Wl,-soname,libpart.so", "-o", self.library, self.folder / "part.c"],
                          ["-o", self.program, self.folder / "program.c", self.library, f"-Wl,-rpath,{self.folder}"]):
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


class ProgramsTest(unittest.TestCase):
    def test_every_image_has_a_list(self) -> None:
        for words, names in ((["operator"], ["trainyard-operator"]),
                             (["worker"], ["trainyard-worker", "trainyard-rank", "trainyard-store"]),
                             (["worker", "cuda"],
                              ["trainyard-worker", "trainyard-rank", "trainyard-store", "libtrainyard_cuda.so"])):
            self.assertEqual(run(SOURCE / "docker/programs", *words).stdout.split(), names)
        self.assertEqual(run(SOURCE / "docker/programs", "operator", "cuda").returncode, 2)


if __name__ == "__main__":
    unittest.main()
