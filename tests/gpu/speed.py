"""What scripts/gpu bench measures: FashionCNN by trainyard-rank and by Python's DDP in turn, on the same GPU in the same run; and stall.py."""

from __future__ import annotations

import json
import os
import statistics
import subprocess

import stall
from machine import START_SECONDS_MAX, CannotRun, Group, Machine, free_ports, one_gpu_for_each

STEPS = 1100
WARM_UP_STEPS = 100
SAMPLES = 60_000
CASES = ((1, 100), (1, 1000), (2, 100))  # ranks, batch size


def our_speed(machine: Machine, ranks: int, batch_size: int) -> float:
    training = {"maxSteps": STEPS, "validateEvery": {"epochs": 100_000}, "log": {"every": {"steps": WARM_UP_STEPS}}, "batchSize": batch_size,
                "data": {"format": "synthetic", "samples": SAMPLES}}
    with Group(machine, training, ranks=ranks) as pods:
        codes = [pod.wait() for pod in pods]
        if any(codes):
            raise CannotRun(f"our ranks ended with {codes}:\n{pods[0].log.read_text()[-2000:]}")
        speeds = [line["samplesPerSecond"] for line in pods[0].lines() if line["message"] == "progress" and line.get("samplesPerSecond")]
    return statistics.harmonic_mean(speeds[1:])


def python_speed(machine: Machine, ranks: int, batch_size: int) -> float:
    port = free_ports(1)[0]
    command = [machine.python, str(machine.source / "bench/training/python_ddp.py"), "--device", "cuda", "--synthetic", str(SAMPLES),
               "--batch-size", str(batch_size), "--epochs", "1000", "--max-steps", str(STEPS), "--warm-up-steps", str(WARM_UP_STEPS)]
    started = []
    for rank in range(ranks):
        environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(ranks), "RANK": str(rank),
                       "LOCAL_RANK": "0", "OMP_NUM_THREADS": "1", **one_gpu_for_each(rank)}
        started.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    outputs = [rank.communicate(timeout=2 * START_SECONDS_MAX) for rank in started]
    for rank, (_, complaint) in zip(started, outputs):
        if rank.returncode != 0:
            raise CannotRun(f"Python's DDP ended with {rank.returncode}:\n{complaint[-2000:]}")
    return json.loads(outputs[0][0].splitlines()[-1])["samples_per_second"]


def run(machine: Machine, rounds: int) -> int:
    print(f"on {machine.gpu}; samples/s, median of {rounds} rounds after one to warm up")
    print(f"{'ranks':>5}  {'batch':>5}  {'trainyard':>9}  {'Python DDP':>10}  ratio")
    rows = []
    for ranks, batch_size in CASES:
        pairs = [(our_speed(machine, ranks, batch_size), python_speed(machine, ranks, batch_size)) for _ in range(rounds + 1)][1:]
        ours, theirs = (statistics.median(column) for column in zip(*pairs))
        rows.append({"figure": f"FashionCNN float32, {ranks} ranks on one GPU, batch {batch_size}", "value": ours, "unit": "samples/s",
                     "peers": {"Python DDP, data on the GPU, fused Adam": theirs}, "rounds": pairs})
        print(f"{ranks:5}  {batch_size:5}  {ours:9.0f}  {theirs:10.0f}  {ours / theirs:5.2f}", flush=True)
    rows += stall.run(machine)
    (machine.source / "build").mkdir(exist_ok=True)
    (machine.source / "build/gpu-bench.json").write_text(json.dumps({"device": machine.gpu, "rows": rows}, indent=1) + "\n")
    return 0
