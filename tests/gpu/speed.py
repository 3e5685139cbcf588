"""What scripts/gpu bench measures: models by trainyard-rank and by Python's DDP in turn, on the same GPU in the same run; and stall.py."""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import subprocess

import stall
from machine import START_SECONDS_MAX, CannotRun, Group, Machine, free_ports, one_gpu_for_each


@dataclasses.dataclass(frozen=True)
class Case:
    figure: str
    ranks: int
    batch_size: int
    steps: int
    warm_up_steps: int
    samples: int
    training: dict  # what our job says beside the fields above
    python: tuple[str, ...]  # the same for bench/training/python_ddp.py
    sequence_length: int = 0  # of token models, whose figure is tokens

    @property
    def unit(self) -> str:
        return "tokens/s" if self.sequence_length else "samples/s"


def fashion_cnn(ranks: int, batch_size: int) -> Case:
    return Case("FashionCNN float32", ranks, batch_size, 1100, 100, 60_000, {}, ())


def gpt2(batch_size: int, length: int, is_bf16: bool, steps: int, *more: str) -> Case:
    training = {"model": {"name": "gpt2", "options": {"dropout": 0.0}}, "options": {"sequenceLength": length}}
    if is_bf16:
        training["precision"] = "bf16-mixed"
    python = ("--model", "gpt2", "--sequence-length", str(length), *(["--bf16"] if is_bf16 else []), *more)
    figure = f"GPT-2 124M, {length} tokens, {'bf16-mixed' if is_bf16 else 'float32'}"
    return Case(figure, 1, batch_size, steps, 20, 2048, training, python, sequence_length=length)


def resnet50(*more: str) -> Case:
    training = {"model": {"name": "resnet50"}, "options": {"channels": 3, "size": 224, "classes": 1000}, "precision": "bf16-mixed",
                "channelsLast": True, "cudnnBenchmark": True}
    return Case("ResNet-50 bf16-mixed, channels last", 1, 256, 70, 20, 2560, training,
                ("--model", "resnet50", "--bf16", "--channels-last", *more))


CASES = (fashion_cnn(1, 100), fashion_cnn(1, 1000), fashion_cnn(2, 100), gpt2(32, 128, False, 120), gpt2(32, 128, True, 120), resnet50(),
         resnet50("--compile"), gpt2(32, 1024, True, 60), gpt2(32, 1024, True, 60, "--compile"))


def our_training(case: Case) -> dict:
    options = case.training.get("options", {})
    return {"maxSteps": case.steps, "validateEvery": {"epochs": 100_000}, "log": {"every": {"steps": case.warm_up_steps}},
            "batchSize": case.batch_size, "data": {"format": "synthetic", "samples": case.samples, "options": options},
            **{name: value for name, value in case.training.items() if name != "options"}}


def our_speed(machine: Machine, case: Case) -> float:
    with Group(machine, our_training(case), ranks=case.ranks) as pods:
        codes = [pod.wait() for pod in pods]
        if any(codes):
            raise CannotRun(f"{case.figure}: our ranks ended with {codes}:\n{pods[0].log.read_text()[-2000:]}")
        speeds = [line["samplesPerSecond"] for line in pods[0].lines() if line["message"] == "progress" and line.get("samplesPerSecond")]
    return statistics.harmonic_mean(speeds[1:])


def python_command(machine: Machine, case: Case) -> list[str]:
    return [machine.python, str(machine.source / "bench/training/python_ddp.py"), "--device", "cuda" if machine.gpu else "cpu", "--synthetic",
            str(case.samples), "--batch-size", str(case.batch_size), "--epochs", "1000", "--max-steps", str(case.steps), "--warm-up-steps",
            str(case.warm_up_steps), *case.python]


def python_speed(machine: Machine, case: Case) -> float:
    port = free_ports(1)[0]
    started = []
    for rank in range(case.ranks):
        environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(case.ranks), "RANK": str(rank),
                       "LOCAL_RANK": "0", "OMP_NUM_THREADS": "1", **one_gpu_for_each(rank)}
        started.append(
            subprocess.Popen(python_command(machine, case), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    outputs = [rank.communicate(timeout=2 * START_SECONDS_MAX) for rank in started]
    for rank, (_, complaint) in zip(started, outputs):
        if rank.returncode != 0:
            raise CannotRun(f"{case.figure}: Python's DDP ended with {rank.returncode}:\n{complaint[-2000:]}")
    return json.loads(outputs[0][0].splitlines()[-1])["samples_per_second"]


def write(machine: Machine, rows: list[dict]) -> None:
    """Called after each row, so that a run which is cut off has its figures."""
    (machine.source / "build").mkdir(exist_ok=True)
    (machine.source / "build/gpu-bench.json").write_text(json.dumps({"device": machine.gpu, "rows": rows}, indent=1) + "\n")


def run(machine: Machine, rounds: int) -> int:
    print(f"on {machine.gpu}; median of {rounds} rounds after one to warm up")
    print(f"{'figure':40}  {'ranks':>5}  {'batch':>5}  {'trainyard':>9}  {'Python':>9}  {'ratio':>5}  unit, peer")
    rows = []
    for case in CASES:
        peer = "DDP, compiled" if "--compile" in case.python else "DDP"
        pairs = [(our_speed(machine, case), python_speed(machine, case)) for _ in range(rounds + 1)][1:]
        pairs = [tuple(speed * (case.sequence_length or 1) for speed in pair) for pair in pairs]
        ours, theirs = (statistics.median(column) for column in zip(*pairs))
        rows.append({"figure": f"{case.figure}, {case.ranks} ranks on one GPU, batch {case.batch_size}", "value": ours, "unit": case.unit,
                     "peers": {f"Python {peer}, data on the GPU, fused Adam": theirs}, "rounds": pairs})
        print(f"{case.figure:40}  {case.ranks:5}  {case.batch_size:5}  {ours:9.0f}  {theirs:9.0f}  {ours / theirs:5.2f}  {case.unit}, {peer}",
              flush=True)
        write(machine, rows)
    rows += stall.run(machine)
    write(machine, rows)
    return 0
