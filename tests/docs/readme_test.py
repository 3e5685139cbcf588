#!/usr/bin/env python3
"""The commands of README.md, as they stand there, with a smaller job. Usage: readme_test.py SOURCE_FOLDER BUILD_FOLDER

They run one after another in one shell, as a reader runs them, in a copy of the tree. What scripts/quickstart builds is built in the tree itself: CMake
does not let a copy take over a folder of builds. ELSEWHERE names the file that runs a command which is not run here.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
sys.path.insert(0, str(SOURCE / "scripts"))
import tree_copy  # noqa: E402

JOB = "examples/fashion-mnist.yaml"
# The job's steps, and how often it saves: a few seconds in place of minutes.
SMALLER = {"    epochs: 3\n": "    maxSteps: 8\n", "    every: {steps: 100}\n": "    every: {steps: 4}\n"}

# command: (the file that runs it, the words with which it does)
ELSEWHERE = {
    "scripts/test": (".ci/run", "scripts/test"),
    "trainyard run examples/smoke.yaml --devices 1,3": ("tests/cli/program_file_test.cpp", '"1,3"'),
    "trainyard run examples/smoke.yaml -np 8 -H host1:4,host2:4": ("tests/cli/ssh_run_test.cpp", "-H"),
}
# How the block begins: (the file that runs it, the words with which it does)
BLOCKS_ELSEWHERE = {"scripts/setup cluster && scripts/cluster up": ("tests/e2e/test_documents.py", 'blocks_of("README.md", "scripts/cluster up")')}
# How a block begins that is no command: a test below compares it with what the programs do, or it is a drawing.
NO_COMMANDS = ("# job.yaml", "  kubectl apply -f job.yaml      ", "epoch 3/3  step 900/900")

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Runs in place of cmake.
CMAKE = """#!/bin/sh
echo "$*" >>{asked}
cd {source} && exec {cmake} "$@"
"""


def command_of(line: str) -> str:
    return re.sub(r"\s+#.*", "", line).strip()


class Readme(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.page = (SOURCE / "README.md").read_text()
        cls.blocks = [text for _, text in BLOCK.findall(cls.page)]
        shell = [text for language, text in BLOCK.findall(cls.page) if language == "sh"]
        cls.local = [block for block in shell if not block.startswith(tuple(BLOCKS_ELSEWHERE))]
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.tree = cls.folder / "trainyard"
        tree_copy.copy_tree(cls.tree, {JOB: cls.smaller_job().encode()})
        (cls.tree / "build").mkdir()
        (cls.tree / "build/release").symlink_to(BUILD)
        (cls.tree / "job.yaml").write_text(next(text for text in cls.blocks if text.startswith("# job.yaml")))
        programs = cls.folder / "programs"
        programs.mkdir()
        cls.asked = cls.folder / "asked"
        cmake = CMAKE.format(asked=cls.asked, source=shlex.quote(str(SOURCE)), cmake=shutil.which("cmake"))
        (programs / "cmake").write_text(cmake)
        (programs / "cmake").chmod(0o755)
        # The folders of the tools that scripts/setup has installed lie under the home of whoever runs this test.
        cache = os.environ.get("TRAINYARD_CACHE") or os.environ.get("XDG_CACHE_HOME", f"{os.environ['HOME']}/.cache") + "/trainyard"
        cls.environment = {**os.environ, "HOME": str(cls.folder), "TRAINYARD_CACHE": cache, "PATH": f"{programs}:{os.environ['PATH']}"}
        cls.environment.pop("KUBECONFIG", None)
        cls.outputs = cls.follow()

    @classmethod
    def smaller_job(cls) -> str:
        text = (SOURCE / JOB).read_text()
        for old, new in SMALLER.items():
            if text.count(old) != 1:
                raise ValueError(f"{JOB} has {text.count(old)} times {old}")
            text = text.replace(old, new)
        return text

    @classmethod
    def follow(cls) -> dict[str, str]:
        """The output of each command of the local blocks. All run in one shell, which ends with the first that fails."""
        lines = [command for block in cls.local for line in block.splitlines() if (command := command_of(line)) and command not in ELSEWHERE]
        script = "".join(f"echo '== '{number}\n{line}\n" for number, line in enumerate(lines))
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=cls.tree, env=cls.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=500, check=False)
        if done.returncode != 0:
            raise AssertionError(f"a command of README.md failed\n{done.stdout}")
        return dict(zip(lines, re.split(r"^== \d+\n", done.stdout, flags=re.MULTILINE)[1:], strict=True))

    def run_here(self, command: str, input_text: str = "") -> str:
        done = subprocess.run(["bash", "-c", f'PATH="$PWD/build/release/bin:$PATH"\n{command}'], cwd=self.tree, env=self.environment,
                              capture_output=True, text=True, timeout=200, check=False, input=input_text)
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def output_of(self, start: str) -> str:
        (found,) = (output for command, output in self.outputs.items() if command.startswith(start))
        return found

    def test_every_block_is_run_or_named_here(self):
        others = [block for block in self.blocks if block not in self.local]
        for block in others:
            self.assertTrue(block.startswith((*BLOCKS_ELSEWHERE, *NO_COMMANDS)), f"no test runs this block:\n{block}")
        for start in (*BLOCKS_ELSEWHERE, *NO_COMMANDS):
            self.assertEqual(len([block for block in others if block.startswith(start)]), 1, start)
        self.assertEqual(len(self.local), 4)

    def test_what_is_not_run_here_is_run_elsewhere(self):
        commands = [command_of(line) for block in self.local for line in block.splitlines()]
        for command, (file, words) in ELSEWHERE.items():
            self.assertIn(command, commands)
            self.assertIn(words, (SOURCE / file).read_text(), f"{command} is said to be run by {file}")
        for file, words in BLOCKS_ELSEWHERE.values():
            self.assertIn(words, (SOURCE / file).read_text())

    def test_the_quickstart_ends_as_the_page_shows(self):
        (shown,) = [block for block in self.blocks if block.startswith("epoch 3/3  step 900/900")]
        # How far the last line of progress is depends on when it is printed.
        pattern = r"epoch \d+  step \d+/8.*\n" + re.escape(shown.split("\n", 1)[1])
        for old, new in {re.escape("0.89.."): r"0\.\d+", re.escape("..."): ".*", "900": "8"}.items():
            self.assertIn(old, pattern)
            pattern = pattern.replace(old, new)
        self.assertRegex(self.output_of("scripts/quickstart"), pattern + r"\nWhat to try next:\n")

    def test_the_quickstart_builds_what_ci_builds(self):
        self.assertEqual(self.asked.read_text().splitlines(),
                         ["--preset release", "--build build/release --target trainyard trainyard-worker trainyard-store trainyard-rank"])
        self.assertIn("stage build build release --target plain", (SOURCE / "scripts/test").read_text())

    def test_the_steps_that_the_page_shows_are_those_of_the_job(self):
        job = (SOURCE / JOB).read_text()
        replicas, batch, epochs = (int(re.search(rf"^ *{name}: (\d+)", job, re.MULTILINE)[1]) for name in ("replicas", "batchSize", "epochs"))
        self.assertIn(f"epoch {epochs}/{epochs}  step {epochs * 60000 // (batch * replicas)}/", self.page)

    def test_the_commands_say_what_their_comments_say(self):
        self.assertIn("valid", self.output_of("trainyard validate"))
        self.assertEqual(re.findall(r"^kind: (\w+)$", self.output_of("trainyard render"), re.MULTILINE), ["Service", "Pod", "Pod"])
        self.assertIn("Succeeded in ", self.output_of(f"trainyard run {JOB}"))
        self.assertIn("trainyard-checkpoints/fashion-mnist/step-8", self.output_of(f"trainyard run {JOB}"))
        self.assertIn("rank=1", self.output_of("trainyard logs"))
        self.assertEqual(self.output_of("trainyard ps").split()[:4], ["NAME", "PHASE", "ATTEMPT", "STEP"])
        self.assertRegex(self.output_of("trainyard status"), r"(?s)Restarts +0\n.*Progress .*step 8/8")
        self.assertEqual(sorted(self.output_of("trainyard run --nproc 2").splitlines()), ["[rank0]: rank 0 of 2", "[rank1]: rank 1 of 2"])
        self.assertRegex(self.output_of("trainyard checkpoints ls"), r"(?m)^ +8 +1 .* final$")
        self.assertRegex(self.output_of("trainyard snapshots history"), r"(?m)^step,name,over,value,generation\n.*,loss,")
        self.assertGreater((self.tree / "fashion.pt").stat().st_size, 1_000_000)

    def test_two_processes_take_the_place_of_two_gpus(self):
        self.assertIn("on the CPU: --devices 2 for two processes", self.page)
        job = (SOURCE / "examples/smoke.yaml").read_text().replace("maxSteps: 200", "maxSteps: 2").replace("replicas: 2", "replicas: 1")
        (self.tree / "one.yaml").write_text(job)
        said = self.run_here("CUDA_VISIBLE_DEVICES= trainyard run one.yaml --devices 2")
        self.assertIn("2 ranks, on the CPU, in place of spec.replicas 1", said)

    def test_the_job_of_the_page_is_valid(self):
        self.assertIn("(TrainingJob fashion-mnist): valid", self.run_here("trainyard validate job.yaml"))
        self.assertIn("claimName: datasets", self.run_here("trainyard render job.yaml"))

    def test_the_commands_in_its_sentences_are_there(self):
        text = BLOCK.sub("", self.page)
        for words in set(re.findall(r"`trainyard ((?:[a-z]+ ?)+)", text)):
            self.run_here(f"trainyard {words.replace('my_net', '').replace('fashion-mnist', '')} --help")
        for script in set(re.findall(r"`(scripts/[\w-]+)[` ]", text)):
            self.assertTrue(os.access(SOURCE / script, os.X_OK), script)
        self.run_here("trainyard init model my_net && test -e my-net/README.md")
        self.run_here("source <(trainyard completion bash) && complete -p trainyard")
        checkpoints = "file://$HOME/trainyard-checkpoints/fashion-mnist"
        for command in ("ps", f'checkpoints ls "{checkpoints}"', f'snapshots ls "{checkpoints}"', f"validate {JOB}"):
            for form in ("json", "yaml"):
                self.run_here(f"trainyard {command} -o {form}")

    def test_the_table_of_folders_is_complete(self):
        rows = dict(re.findall(r"^\| (\[`.*?) \| (.*) \|$", self.page, re.MULTILINE))
        named = {folder.split("/")[0] for cell in rows for folder in re.findall(r"\(([\w/]+)\)", cell)}
        listed = subprocess.run(["git", "ls-files"], cwd=SOURCE, check=True, capture_output=True, text=True).stdout.split()
        self.assertEqual({path.split("/")[0] for path in listed if "/" in path and not path.startswith(".")} - named, set())
        for folder in ("api", "checkpoint", "operator", "worker"):
            (contents,) = [contents for cell, contents in rows.items() if cell == f"[`{folder}/`]({folder})"]
            libraries = {path.split("/")[1] for path in listed if re.match(rf"{folder}/\w+/CMakeLists.txt$", path)}
            self.assertEqual({library for library in libraries - {"headers"} if f"`{library}`" not in contents}, set(), folder)

    def test_the_presets_that_it_names_are_there(self):
        names = re.search(r"^CMake presets: (.*?)\. C\+\+20", self.page, re.MULTILINE | re.DOTALL)[1]
        presets = re.findall(r'"name": "(\w+)"', (SOURCE / "CMakePresets.json").read_text())
        self.assertEqual(set(re.findall(r"`(\w+)`", names)), set(presets) - {"base"})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
