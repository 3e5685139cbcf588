"""The cluster of this run: `scripts/cluster run`, which ends with the process that started it."""

import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from trainyard_cluster.node import GATEWAY

REPOSITORY = Path(__file__).absolute().parents[3]
TOOLS = Path(os.environ["TRAINYARD_TOOLS_HOME"])
SCRIPT = str(REPOSITORY / "scripts/cluster")
START_SECONDS_MAX = 300
END_SECONDS_MAX = 120


class Cluster:
    """A running cluster, by its folder. `gateway` is the address at which pods reach programs on its node."""

    gateway = GATEWAY

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    def load(self, archive: Path | str) -> None:
        """Imports the images of an archive into the node."""
        subprocess.run([SCRIPT, "load", "--dir", str(self.folder), str(archive)], check=True)

    def run_inside(self, *command: object) -> str:
        """The output of a program that runs as root on the node, with the node's processes and network."""
        words = [SCRIPT, "exec", "--dir", str(self.folder), "--", *map(str, command)]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout

    def wait_until_listening(self, address: str, port: int) -> None:
        """Waits until a server accepts a TCP connection from the node: it may not be reached from this machine."""
        deadline = time.monotonic() + 30
        while True:
            try:
                self.run_inside("/usr/bin/python3", "-c", f"import socket; socket.create_connection(('{address}', {port}), 1)")
                return
            except subprocess.CalledProcessError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def kill_inside(self, program: str) -> int:
        """Sends SIGKILL to every process of that name on the node, in any container. Returns their number."""
        script = 'n=0; for p in /proc/[0-9]*; do [ "$(cat $p/comm 2>/dev/null)" = "$0" ] && kill -9 ${p#/proc/} && n=$((n+1)); done; echo $n'
        return int(self.run_inside("sh", "-c", script, program[:15]))


class OwnCluster(Cluster):
    """The cluster that this process starts and stops."""

    def __init__(self) -> None:
        super().__init__(Path(tempfile.mkdtemp(prefix="trainyard-e2e-", dir=_large_temporary_folder())))
        self.runner = subprocess.Popen(  # pylint: disable=consider-using-with
            [SCRIPT, "run", "--dir", str(self.folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.inside: list[subprocess.Popen] = []

    def wait_until_ready(self) -> None:
        said, _, _ = select.select([self.runner.stdout], [], [], START_SECONDS_MAX)
        assert said, f"the cluster did not start within {START_SECONDS_MAX} s"
        assert self.runner.stdout.readline().strip() == "ready", "the cluster did not start; its reason is above"

    def start_inside(self, *command: object, environment: dict[str, str] | None = None, log: Path) -> subprocess.Popen:
        """A program that runs as root on the node until the cluster ends."""
        with open(log, "ab") as output:
            process = subprocess.Popen(  # pylint: disable=consider-using-with
                [SCRIPT, "exec", "--dir", str(self.folder), "--", *map(str, command)],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, env={**os.environ, **(environment or {})})
        self.inside.append(process)
        return process

    def save_logs(self, target: Path) -> None:
        shutil.copytree(self.folder / "logs", target / "cluster-logs", dirs_exist_ok=True)
        shutil.copytree(self.folder / "pod-logs/pods", target / "pod-logs", dirs_exist_ok=True, symlinks=False,
                        ignore_dangling_symlinks=True)

    def stop(self) -> None:
        self.runner.stdin.close()
        try:
            self.runner.wait(END_SECONDS_MAX)
        finally:
            # They end with the cluster. If it did not end, they are ended here.
            for process in [self.runner, *self.inside]:
                if process.poll() is None:
                    process.kill()
                process.wait(END_SECONDS_MAX)


def _large_temporary_folder() -> str:
    """The folder for the cluster: not on a tmpfs, which would hold unpacked images in memory."""
    return os.environ.get("TMPDIR", "/var/tmp")
