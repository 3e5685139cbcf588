"""Starts a training of two ranks on this machine, by trainyard-rank, Python's DDP or Horovod, and returns its reports."""
import concurrent.futures
import dataclasses
import json
import math
import os
import pathlib
import platform
import socket
import subprocess
import sys
import threading
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


@dataclasses.dataclass
class Rank:
    """A rank's process after its end."""
    out: str
    err: str
    peak_rss: int  # bytes
    first_step_seconds: float  # from its start to its word of the first step; NaN where it said none


class Reader(threading.Thread):
    """Reads a pipe to its end, and notes when a line with `mark` came."""

    def __init__(self, pipe, mark):
        super().__init__(daemon=True)
        self.pipe, self.mark, self.lines, self.marked_at = pipe, mark, [], math.nan
        self.start()

    def run(self):
        for line in self.pipe:
            if math.isnan(self.marked_at) and self.mark in line:
                self.marked_at = time.monotonic()
            self.lines.append(line)

    def text(self):
        self.join()
        return "".join(self.lines)


def run_ranks(command, variables, world_size=WORLD_SIZE, prefix=lambda rank: []):
    """Each rank's Rank. `prefix`: the words before the command, by rank. Ends this program when a rank fails."""
    port = str(free_port())
    began = time.monotonic()
    ranks = []
    for rank in range(world_size):
        environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(world_size), "RANK": str(rank),
                       "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(world_size), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "-1",
                       **variables}
        process = subprocess.Popen([*prefix(rank), *command], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        ranks.append((process, Reader(process.stdout, "first step"), Reader(process.stderr, "first step")))
    ended = []
    for process, out, err in ranks:
        texts = out.text(), err.text()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.exit(f"error: {' '.join(command)} ended with exit code {process.returncode}:\n{texts[0]}\n{texts[1]}")
        marks = [reader.marked_at for reader in (out, err) if not math.isnan(reader.marked_at)]
        ended.append(Rank(*texts, usage.ru_maxrss * 1024, min(marks, default=math.nan) - began))
    return ended


def log_lines(rank):
    """The JSON log lines of a Trainyard rank."""
    return [json.loads(line) for line in rank.err.splitlines() if line.startswith("{")]


def side_by_side(run, count):
    """The results of `count` calls of `run` at the same time."""
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return [done.result() for done in [pool.submit(run) for _ in range(count)]]


def run_trainyard_ranks(training, program=RANK_PROGRAM, world_size=WORLD_SIZE, variables={}, prefix=lambda rank: []):
    spec = {"training": {"model": {"name": "fashion_cnn"}, "data": {"format": "idx", "path": DATA}, "batchSize": BATCH_SIZE, **training}}
    return run_ranks([str(program)], {"TRAINYARD_SPEC": json.dumps(spec), "TRAINYARD_LOG_FORMAT": "json", **variables}, world_size, prefix)


def run_trainyard(training):
    """The JSON log lines of rank 0."""
    return log_lines(run_trainyard_ranks(training)[0])


def run_python_ranks(script, *arguments, variables={}, world_size=WORLD_SIZE):
    command = [torch_python(), str(ROOT / "bench/training" / script), "--data", DATA, "--batch-size", str(BATCH_SIZE), *map(str, arguments)]
    return run_ranks(command, variables, world_size)


def run_horovod(python, *arguments):
    """The result of the Python peer with Horovod, by the horovodrun beside `python`. Ends this program when it fails."""
    command = [str(pathlib.Path(python).with_name("horovodrun")), "--gloo", "-np", str(WORLD_SIZE), "-H", f"localhost:{WORLD_SIZE}", str(python),
               str(ROOT / "bench/training/python_ddp.py"), "--data", DATA, "--batch-size", str(BATCH_SIZE), *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(command)} ended with exit code {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return json.loads(next(line.split(">:", 1)[1] for line in done.stdout.splitlines() if line.startswith("[0]<stdout>:{")))


def result_of(rank):
    """The JSON line with which a Python peer ends."""
    return json.loads(rank.out.splitlines()[-1])


def run_python(*arguments):
    return result_of(run_python_ranks("python_ddp.py", *arguments)[0])


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
