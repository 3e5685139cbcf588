#!/usr/bin/env python3
"""Every job of examples/ is valid, and those that need nothing but this machine train. Usage: examples_test.py SOURCE_FOLDER BUILD_FOLDER"""

import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import yaml

SOURCE, BUILD = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
EXAMPLES = SOURCE / "examples"
TRAINYARD = BUILD / "bin/trainyard"

STEPS = 4

# The jobs that need more than this machine and trainyard-worker, and what they need. Every other job is run.
NOT_RUN = {
    "deepliif.yaml": "two GPUs and a volume claim with its data",
    "exercise-inference.yaml": "volume claims for data and weights; exercises_test runs it",
    "exercise.yaml": "a volume claim with FashionMNIST; exercises_test runs it",
    "fashion-mnist.yaml": "volume claims for data and checkpoints",
    "hugging-face.yaml": "GPUs and an image with transformers",
    "lightning.yaml": "GPUs and an image with lightning",
    "local-tier.yaml": "an object store and a folder of the node",
    "own-model/line_fit.yaml": "a program of its own",
    "python-ddp.yaml": "an image with PyTorch; python_examples_test runs it",
    "s3.yaml": "an object store",
    "torchrun.yaml": "GPUs and an image with PyTorch; python_examples_test runs it",
    "tpu.yaml": "TPUs and an image with JAX",
}


def texts() -> dict[str, str]:
    return {path.relative_to(EXAMPLES).as_posix(): path.read_text() for path in sorted(EXAMPLES.rglob("*.yaml"))}


def needs_nothing(job: dict) -> bool:
    """True when `trainyard run` needs no GPU, no data, no store and no container of the job's own."""
    spec = job["spec"]
    if spec.get("gpusPerPod", 1) != 0 or "template" in spec or "checkpoint" in spec:
        return False
    return spec["training"]["data"]["format"] == "synthetic" and "weights" not in spec["training"]["model"]


def strategy_fields() -> dict:
    """The fields of spec.training.strategy, as the CRD has them."""
    fields = yaml.safe_load((SOURCE / "crds/trainingjobs.trainyard.dev.yaml").read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for name in ("spec", "training", "strategy"):
        fields = fields["properties"][name]
    return fields["properties"]


def variants(text: str) -> list[str]:
    """The job as it is written, and once with each strategy that a comment offers in place of the job's own."""
    offered = re.findall(r"^ +# (strategy: .*)$", text, re.MULTILINE)
    return [text] + [re.sub(r"^( +)strategy: .*$", rf"\g<1>{strategy}", text, flags=re.MULTILINE) for strategy in offered]


def shorten(job: dict) -> dict:
    """`job` with few steps. What would begin after these steps begins within them."""
    training = job["spec"]["training"]
    training["maxSteps"] = STEPS
    training.setdefault("log", {})["every"] = {"steps": STEPS // 2}
    training["data"].setdefault("samples", 3072)
    strategy = training.get("strategy", {})
    for begin in ("qadamWarmupSteps", "asyncWarmupSteps"):
        if begin in strategy:
            strategy[begin] = STEPS // 2
    if "powerSgd" in strategy:
        strategy["powerSgd"]["startStep"] = STEPS // 2
    if "checkParametersEvery" in strategy:
        strategy["checkParametersEvery"]["steps"] = STEPS // 2
    if "warmupSteps" in training.get("lrSchedule", {}):
        training["lrSchedule"]["warmupSteps"] = STEPS // 2
    return job


def run(job: dict, folder: pathlib.Path) -> dict:
    """What `trainyard run` has printed when it fails; otherwise the values by which the run is judged."""
    job_log = job["spec"]["training"]["log"]
    if "uri" in job_log:
        job_log["uri"] = f"file://{folder}/log"
    done = subprocess.run([TRAINYARD, "run", "-", "--dir", folder], input=yaml.safe_dump(job), capture_output=True, text=True, timeout=120,
                          check=False, env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""})
    if done.returncode != 0:
        return {"exit code": done.returncode, "output": done.stdout + done.stderr}
    logs = folder / "logs/latest"
    status = json.loads((logs / "status.json").read_text())
    ends = [json.loads(path.read_text()) for path in sorted(logs.glob("attempt-1/*.termination"))]
    log = [json.loads(line) for line in (logs / "attempt-1/rank-0.log").read_text().splitlines() if line.startswith("{")]
    return {
        "phase": status["phase"],
        "attempts": status["attempt"],
        "reasons": [end["reason"] for end in ends],
        "steps": [end["progress"]["step"] for end in ends],
        "ranks in the log": next(line["worldSize"] for line in log if line["message"] == "training begins"),
        "progress": [line["step"] for line in log if line["message"] == "progress"],
        "pictures": len(list(folder.glob("log/timeline.*.json"))),
    }


def success(job: dict) -> dict:
    ranks = job["spec"]["replicas"]
    has_timeline = job["spec"]["training"].get("strategy", {}).get("timeline", False)
    return {"phase": "Succeeded", "attempts": 1, "reasons": ["Completed"] * ranks, "steps": [STEPS] * ranks, "ranks in the log": ranks,
            "progress": [STEPS // 2, STEPS], "pictures": ranks if has_timeline else 0}


class Examples(unittest.TestCase):
    maxDiff = None

    def setUp(self) -> None:
        self.texts = texts()
        self.jobs = {name: yaml.safe_load(text) for name, text in self.texts.items()}

    def test_every_job_is_valid(self):
        self.assertGreater(len(self.texts), 20)
        done = subprocess.run([TRAINYARD, "validate", *(EXAMPLES / name for name in self.texts)], capture_output=True, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(len(re.findall(r": valid$", done.stdout, re.MULTILINE)), len(self.texts), done.stdout)

    def test_every_job_is_run_or_named_with_what_it_needs(self):
        self.assertEqual({name for name, job in self.jobs.items() if not needs_nothing(job)}, set(NOT_RUN))

    def test_no_two_jobs_have_one_name(self):
        names = [job["metadata"]["name"] for job in self.jobs.values()]
        self.assertEqual(len(set(names)), len(names))

    def test_every_job_that_needs_nothing_trains_on_as_many_ranks_as_it_asks_for(self):
        jobs = {f"{name}-{number}": shorten(yaml.safe_load(text)) for name, whole in self.texts.items() if name not in NOT_RUN
                for number, text in enumerate(variants(whole))}
        self.assertGreaterEqual(len(jobs), 26)
        with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
            runs = {name: pool.submit(run, job, pathlib.Path(folder) / name) for name, job in jobs.items()}
            found = {name: each.result() for name, each in runs.items()}
        self.assertEqual(found, {name: success(job) for name, job in jobs.items()})

    def test_each_algorithm_of_bagua_is_in_its_example(self):
        jobs = [yaml.safe_load(text) for text in variants(self.texts["bagua.yaml"])]
        shown = {job["spec"]["training"]["strategy"]["algorithm"] for job in jobs}
        self.assertEqual(shown, set(strategy_fields()["algorithm"]["enum"]))

    def test_each_strategy_is_in_an_example(self):
        jobs = [yaml.safe_load(text) for whole in self.texts.values() for text in variants(whole)]
        trained = [job["spec"]["training"] for job in jobs if "training" in job["spec"]]
        shown = {training.get("strategy", {}).get("name", "ddp") for training in trained}
        self.assertEqual(shown, set(strategy_fields()["name"]["enum"]))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
