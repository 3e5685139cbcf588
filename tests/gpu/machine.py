"""The machine that scripts/gpu runs on: its torch, its GPU, and the ranks that are started there."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import socket
import subprocess
import tempfile
import time

TORCH_VERSION = "2.11."
START_SECONDS_MAX = 300  # A cold disk reads 2.5 GB of CUDA's libraries.

FACTS = """
import json, pathlib, torch
print(json.dumps({"version": torch.__version__, "folder": str(pathlib.Path(torch.__file__).parent),
                  "gpus": torch.cuda.device_count() if torch.cuda.is_available() else 0,
                  "gpu": torch.cuda.get_device_name(0) if torch.cuda.is_available() else ""}))
"""


class CannotRun(Exception):
    """The command cannot run on this machine; says why, and what to do."""


@dataclasses.dataclass(frozen=True)
class Machine:
    source: pathlib.Path  # the packed folder, or a checkout with a build
    python: str
    torch: pathlib.Path
    gpu: str  # its name; empty: ranks train on the CPU

    @property
    def programs(self) -> pathlib.Path:
        packed = self.source / "bin"
        return packed if packed.exists() else self.source / "build/release/bin"

    def environment(self) -> dict[str, str]:
        """For our programs only: Python must not load the packed libraries."""
        folders = [self.source / "lib", self.torch / "lib", *sorted(self.torch.parent.glob("nvidia/*/lib"))]
        return {**os.environ, "LD_LIBRARY_PATH": ":".join(str(folder) for folder in folders if folder.exists())}


def find(source: pathlib.Path, needs_gpu: bool) -> Machine:
    python = os.environ.get("PYTHON", "python3")
    try:
        asked = subprocess.run([python, "-c", FACTS], capture_output=True, text=True, check=False)
    except OSError as error:
        raise CannotRun(f"{python} cannot be started ({error.strerror}): let PYTHON name a Python with torch {TORCH_VERSION}x") from error
    if asked.returncode != 0:
        last = asked.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        raise CannotRun(f"{python} cannot import torch ({last[0]}): let PYTHON name a Python with torch {TORCH_VERSION}x")
    facts = json.loads(asked.stdout.splitlines()[-1])
    if not facts["version"].startswith(TORCH_VERSION):
        raise CannotRun(f"{python} has torch {facts['version']}, and our programs are built for {TORCH_VERSION}x: let PYTHON name another Python")
    if needs_gpu and not facts["gpus"]:
        raise CannotRun(f"torch {facts['version']} of {python} sees no GPU on this machine: look at what nvidia-smi says, or use test --cpu")
    return Machine(source, python, pathlib.Path(facts["folder"]), facts["gpu"] if needs_gpu else "")


def free_ports(count: int) -> list[int]:
    with_sockets = [socket.socket() for _ in range(count)]
    for one in with_sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in with_sockets]
    for one in with_sockets:
        one.close()
    return ports


def one_gpu_for_each(rank: int) -> dict[str, str]:
    """NCCL refuses two ranks on one GPU only within one host: each rank calls itself another host, and talks over sockets."""
    return {"CUDA_VISIBLE_DEVICES": "0", "NCCL_HOSTID": f"rank-{rank}"}


@dataclasses.dataclass
class Pod:
    """A launcher with one rank."""

    process: subprocess.Popen[bytes]
    log: pathlib.Path
    last_words: pathlib.Path

    def wait(self, seconds: float = START_SECONDS_MAX) -> int:
        return self.process.wait(seconds)

    def says(self) -> dict:
        """The termination message."""
        return json.loads(self.last_words.read_text())

    def lines(self) -> list[dict]:
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]

    def wait_for_step(self, step: int) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        while not any(line.get("step", 0) >= step for line in self.lines()):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"step {step} was not reached; the log ends with:\n{self.log.read_text()[-2000:]}")
            time.sleep(0.05)

    def rank_pid(self) -> int:
        """Of the launcher's child that is the rank: the store is another."""
        pid = self.process.pid
        for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            if "trainyard-rank" in pathlib.Path(f"/proc/{child}/cmdline").read_text():
                return int(child)
        raise AssertionError("the launcher has no rank")


class Group:
    """The pods of one attempt. Leaving it kills what still runs."""

    def __init__(self, machine: Machine, training: dict, ranks: int = 2, checkpoint: str = "", attempt: int = 1,
                 variables: dict[int, dict[str, str]] | None = None, save_every: dict | None = None) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="trainyard-gpu-")
        ports = free_ports(3 + ranks)
        spec = {"training": {"model": {"name": "fashion_cnn"}, "data": {"format": "synthetic", "samples": 6000}, "batchSize": 100, **training},
                "checkpoint": {"uri": checkpoint, **({"every": save_every} if save_every else {})} if checkpoint else None}
        self.pods: list[Pod] = []
        for rank in range(ranks):
            base = pathlib.Path(self.folder.name) / str(rank)
            environment = {
                **machine.environment(), "RANK": str(rank), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(ports[0]),
                "TRAINYARD_STORE_PORT": str(ports[1]), "TRAINYARD_PEER_PORT": str(ports[2]), "TRAINYARD_STATUS_PORT": str(ports[3 + rank]),
                "TRAINYARD_TERMINATION_LOG": f"{base}.end", "TRAINYARD_ATTEMPT": str(attempt), "TRAINYARD_JOB_UID": "gpu",
                "TRAINYARD_SPEC": json.dumps(spec), "TRAINYARD_LOG_FORMAT": "json", "TRAINYARD_NODE_NAME": f"host-{rank}", "OMP_NUM_THREADS": "1",
                "TRAINYARD_GPUS_PER_POD": "1" if machine.gpu else "0", **(one_gpu_for_each(rank) if machine.gpu else {}),
                **(variables or {}).get(rank, {})}
            with open(f"{base}.log", "wb") as log:
                process = subprocess.Popen([machine.programs / "trainyard-worker"], env=environment, stdout=log, stderr=log)
            self.pods.append(Pod(process, pathlib.Path(f"{base}.log"), pathlib.Path(f"{base}.end")))

    def __enter__(self) -> list[Pod]:
        return self.pods

    def __exit__(self, *_: object) -> None:
        for pod in self.pods:
            if pod.process.poll() is None:
                pod.process.kill()
            pod.process.wait()
        self.folder.cleanup()
