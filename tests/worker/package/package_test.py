"""Installs Trainyard into an empty folder, and builds what `trainyard init model` writes against that folder alone, as a user does.

Builds the module of docs/own-model.md beside it.

Usage: package_test.py SOURCE BUILD
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])

# The names that libtrainyard.so may show.
PUBLIC = re.compile(r"(?:(?:vtable|typeinfo|typeinfo name) for )?"
                    r"trainyard::(?:Batch|Dataset|FrozenParameters|InvalidJob|Module|Optimizer|Options|TensorTree)(?:::(?!Node\b)|$)"
                    r"|trainyard::(?:run_program|run_rank)\(trainyard::Models const&|trainyard::(?:make_named_optimizer|make_optimizer|snake_case|wrap_optimizer)\b")


def run(*command: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.prefix = cls.folder / "prefix"
        installed = run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        assert installed.returncode == 0, installed.stdout

    def configure(self, *options: str, name: str = "build") -> subprocess.CompletedProcess[str]:
        project = self.folder / name / "project"
        written = run(self.prefix / "bin/trainyard", "init", "model", "point_net", "--dir", project)
        self.assertEqual(written.returncode, 0, written.stdout)
        return run("cmake", "-S", project, "-B", self.folder / name, f"-DCMAKE_PREFIX_PATH={self.prefix}", *options)

    def code_of_the_page(self) -> str:
        page = (SOURCE / "docs/own-model.md").read_text()
        blocks = re.findall(r"^```cpp\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        programs = [block for block in blocks if block.startswith("#include")]
        self.assertEqual(len(programs), 1, "the page has one whole program; its other code is parts of one")
        return programs[0]

    def train(self, job: str, program: str) -> subprocess.CompletedProcess[str]:
        (self.folder / "job.yaml").write_text(job)
        # Nothing but the installation and the built program: no PATH in which a trainyard-worker of another build could be.
        return run(self.prefix / "bin/trainyard", "run", "job.yaml", "--worker", self.folder / "build" / program, cwd=self.folder,
                   env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder)})

    def test_a_new_project_builds_and_trains_with_the_installed_package_alone(self) -> None:
        launcher = [f"-DCMAKE_CXX_COMPILER_LAUNCHER={ccache}"] if (ccache := shutil.which("ccache")) else []
        os.environ.update(CCACHE_BASEDIR=str(self.folder), CCACHE_NOHASHDIR="1")
        configured = self.configure(*launcher)
        self.assertEqual(configured.returncode, 0, configured.stdout)
        project = self.folder / "build/project"
        (project / "classifier.cpp").write_text(self.code_of_the_page())
        with (project / "CMakeLists.txt").open("a") as lists:
            lists.write("add_executable(classifier classifier.cpp)\ntarget_link_libraries(classifier PRIVATE trainyard::trainyard)\n")
        built = run("cmake", "--build", self.folder / "build", "--parallel", 2)
        self.assertEqual(built.returncode, 0, built.stdout)

        job = (project / "point_net.yaml").read_text()
        trained = self.train(job, "point_net")
        self.assertEqual(trained.returncode, 0, trained.stdout)
        self.assertIn("trained 300 steps", trained.stdout)

        program = self.folder / "build/point_net"
        asked = run(program, "--help")
        self.assertEqual((asked.returncode, asked.stdout.splitlines()[0]), (0, f"usage: trainyard run JOB.yaml --worker {program}"))
        alone = run(program)
        self.assertEqual((alone.returncode, len(alone.stdout.splitlines())), (93, 1), alone.stdout)
        self.assertIn(f"trainyard run JOB.yaml --worker {program}", alone.stdout)

        refused = self.train(job.replace("point-net", "point-net-2").replace("bias: true", "bais: true"), "point_net")
        self.assertNotEqual(refused.returncode, 0, refused.stdout)
        self.assertIn("training.model.options.bais: the model has no such option; did you mean bias?", refused.stdout)
        self.assertIn("not restarted", refused.stdout)

        of_the_page = job.replace("point-net", "classifier").replace("{name: point_net, options: {bias: true}}",
                                                                     "{name: classifier, options: {width: 32}}")
        of_the_page = of_the_page.replace("{format: synthetic}", "{format: synthetic, samples: 200}")
        classified = self.train(of_the_page, "classifier")
        self.assertEqual(classified.returncode, 0, classified.stdout)
        self.assertIn("val_loss", classified.stdout)

    def test_no_build_begins_without_the_libtorch_that_trainyard_was_built_for(self) -> None:
        missing = self.configure("-DTRAINYARD_TORCH=/nowhere", name="missing")
        self.assertNotEqual(missing.returncode, 0)
        message = " ".join(missing.stdout.split())
        self.assertRegex(message, r"Trainyard needs LibTorch 2\.\d+, whose binary interface it was built for; /nowhere is no torch wheel\.")
        self.assertIn("-DTRAINYARD_TORCH=", message)

        torch = self.folder / "torch"
        (torch / "lib").mkdir(parents=True)
        (torch / "lib/libtorch_cpu.so").touch()
        (torch / "version.py").write_text("__version__ = '1.13.1+cu117'\n")
        other = self.configure(f"-DTRAINYARD_TORCH={torch}", name="other")
        self.assertNotEqual(other.returncode, 0)
        self.assertIn("is version 1.13.", " ".join(other.stdout.split()))

    def test_the_library_shows_nothing_but_what_the_public_headers_declare(self) -> None:
        shown = run("nm", "--dynamic", "--defined-only", "--demangle", self.prefix / "lib/libtrainyard.so").stdout.splitlines()
        names = [line.split(maxsplit=2)[2] for line in shown]
        self.assertGreater(len(names), 20)
        self.assertEqual([name for name in names if not PUBLIC.match(name)], [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
