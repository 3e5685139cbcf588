"""A small job whose ranks are started by a launcher that is not Trainyard's."""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

PATIENCE_SECONDS = 120
STEPS = 6
EXIT_SKIPPED = 77


def cannot_run(reason):
    """Ends the test program. With CI=true a check that cannot run has failed."""
    print(f"skipped: {reason}")
    sys.exit(1 if os.environ.get("CI") == "true" else EXIT_SKIPPED)


def free_ports(count):
    """The first of `count` ports of the loopback that follow each other and were free a moment ago."""
    while True:
        with contextlib.ExitStack() as listeners:
            first = None
            try:
                for index in range(count):
                    listener = listeners.enter_context(socket.socket())
                    listener.bind(("127.0.0.1", first + index if first else 0))
                    first = first or listener.getsockname()[1]
            except (OSError, OverflowError):  # One of those that follow is taken, or is above 65535.
                continue
            return first


def variables(folder, **training):
    """The environment of a rank that does `STEPS` steps, unless `training` says otherwise. Its one checkpoint, of its last step, goes into `folder`."""
    spec = {
        "training": {
            "model": {"name": "fashion_cnn"},
            "maxSteps": STEPS,
            "batchSize": 8,
            "strategy": {"name": "ddp"},
            "data": {"format": "synthetic", "samples": 240},
            "log": {"every": {"steps": 3}},
            **training,
        },
        "checkpoint": {"uri": f"file://{folder}/checkpoints", "every": {"steps": 1_000_000}},
    }
    return {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "-1", "TRAINYARD_LOG_FORMAT": "json", "TRAINYARD_SPEC": json.dumps(spec)}


def processes_below(pid):
    """The process and all its descendants."""
    found = [pid]
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:  # The thread has ended.
            continue
        for child in children:
            found += processes_below(int(child))
    return found


def kill_with_children(process):
    """A launcher that is killed leaves its ranks to themselves."""
    if process.poll() is None:
        for pid in processes_below(process.pid):
            with contextlib.suppress(ProcessLookupError):  # It may have just ended.
                os.kill(pid, signal.SIGKILL)
    process.wait()


class Launch:
    """A launcher's process. Each rank writes into a file of its own, which `logs` finds in the folder."""

    def __init__(self, folder, command, environment, logs):
        self.folder, self.pattern = folder, logs
        # The job's variables come first: MPICH 4.0 gives other hosts all but the last variable.
        environment = {**environment, **{name: value for name, value in os.environ.items() if name not in environment}}
        with open(folder / "launcher.log", "w") as log:
            self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder)

    def logs(self):
        files = [self.folder / "launcher.log", *sorted(self.folder.glob(self.pattern))]
        return "".join(f"\n--- {file.relative_to(self.folder)}\n{file.read_text()}" for file in files)

    def pid_of_rank(self, rank):
        return int(re.search(rf'"rank started","rank":{rank},"pid":(\d+)', self.logs())[1])

    def wait(self):
        try:
            return self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the launcher does not end{self.logs()}") from None

    def end(self):
        kill_with_children(self.process)


class LauncherTest(unittest.TestCase):
    worker = None  # trainyard-worker
    by_hand = None  # The checksum of the parameters that two ranks have trained which were started in Trainyard's own words.

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "checkpoints").mkdir()
        self.launches = 0

    def launch(self, command, environment, logs):
        self.launches += 1
        folder = self.folder / f"launch-{self.launches}"
        folder.mkdir()
        launch = Launch(folder, command, environment, logs)
        self.addCleanup(launch.end)
        return launch

    def wait_until(self, launch, what, is_so):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_so():
            if time.monotonic() > deadline or launch.process.poll() is not None:
                self.fail(f"{what} did not come about{launch.logs()}")
            time.sleep(0.05)

    def wait_for_steps(self, launch):
        self.wait_until(launch, "training", lambda: '"message":"progress"' in launch.logs())

    def expect_end(self, launch, *codes):
        code = launch.wait()
        self.assertIn(code, codes, launch.logs())

    def checksum(self, launch):
        """The checksum of the parameters, which all ranks of a job that completes have alike."""
        return re.search('"parametersChecksum":"([0-9a-f]{16})"', launch.logs())[1]

    def expect_same_training(self, launch):
        """The job has completed, and its ranks have trained what two ranks train that are started in Trainyard's own words."""
        self.expect_end(launch, 0)
        if LauncherTest.by_hand is None:
            LauncherTest.by_hand = self.checksum(self.train_by_hand())
        self.assertEqual(self.checksum(launch), LauncherTest.by_hand)

    def train_by_hand(self):
        """Rank 0, which has ended."""
        port = free_ports(3)
        group = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                 "TRAINYARD_STORE_PORT": str(port + 1), "TRAINYARD_PEER_PORT": str(port + 2)}
        folder = self.folder / "by-hand"
        (folder / "checkpoints").mkdir(parents=True)
        ranks = [self.launch([self.worker], {**variables(folder), **group, "RANK": rank, "LOCAL_RANK": rank}, "none") for rank in "01"]
        for rank in ranks:
            self.expect_end(rank, 0)
        return ranks[0]
