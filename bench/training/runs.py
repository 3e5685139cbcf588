"""Starts a training of two ranks on this machine, by trainyard-rank or by Python's DDP, and returns its reports."""
import json
import os
import pathlib
import platform
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
RANK_PROGRAM = ROOT / "build/release/bin/trainyard-rank"
DATA = "/usr/share/datasets/fashion-mnist"
WORLD_SIZE = 2
BATCH_SIZE = 100


def script_folder(name):
    """A folder that scripts/lib.sh names."""
    said = subprocess.run(["bash", "-c", f". scripts/lib.sh && echo ${name}"], cwd=ROOT, check=True, capture_output=True, text=True)
    return pathlib.Path(said.stdout.strip())


def torch_python():
    return str(script_folder("torch_home") / "bin/python")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_ranks(command, variables, world_size=WORLD_SIZE):
    """The standard error and output of each rank. Ends this program when a rank fails."""
    port = str(free_port())
    ranks = []
    for rank in range(world_size):
        environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(world_size), "RANK": str(rank),
                       "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(world_size), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "-1",
                       **variables}
        ranks.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    outputs = [rank.communicate() for rank in ranks]
    for rank, (out, err) in zip(ranks, outputs):
        if rank.returncode != 0:
            sys.exit(f"error: {command[0]} ended with exit code {rank.returncode}:\n{out}\n{err}")
    return outputs


def run_trainyard(training):
    """The JSON log lines of rank 0."""
    spec = {"training": {"model": {"name": "fashion_cnn"}, "data": {"format": "idx", "path": DATA}, "batchSize": BATCH_SIZE, **training}}
    outputs = run_ranks([str(RANK_PROGRAM)], {"TRAINYARD_SPEC": json.dumps(spec), "TRAINYARD_LOG_FORMAT": "json"})
    return [json.loads(line) for line in outputs[0][1].splitlines() if line.startswith("{")]


def run_python(*arguments):
    script = ROOT / "bench/training/python_ddp.py"
    outputs = run_ranks([torch_python(), str(script), "--data", DATA, "--batch-size", str(BATCH_SIZE), *map(str, arguments)], {})
    return json.loads(outputs[0][0].splitlines()[-1])


def machine():
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            return f"{os.cpu_count()} x {line.split(':')[1].strip()}, {platform.system()} {platform.release()}"
    return platform.platform()


def write_result(name, rows):
    folder = ROOT / "build/bench"
    folder.mkdir(parents=True, exist_ok=True)
    result = {"machine": machine(), "date": time.strftime("%Y-%m-%d"), "rows": rows}
    (folder / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
