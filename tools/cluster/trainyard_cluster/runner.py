"""`run`: keeps one cluster until it is asked to stop.

It writes "ready" or "error: ..." to stdout. The end of stdin ends the cluster, so that a test that dies in any way takes its cluster
with it. After a line "detach" on stdin, which it answers with "detach", the end of stdin has no effect.
"""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

from .components import Components
from .control_groups import make_control_group
from .control_plane import API_SERVICE_ADDRESS, ControlPlane, loopback_addresses, sandbox_addresses
from .failure import ClusterError
from .node import BRIDGE, BRIDGE_ADDRESS, Node
from .sandbox import Sandbox, prepare_inside
from .state import ClusterFolder

ATTEMPTS_MAX = 3
DETACH = "detach"


class Lifeline:
    """Says when to stop: SIGTERM, SIGINT, SIGHUP, or the end of stdin."""

    def __init__(self, log: Path) -> None:
        """Once detached, this process writes its output to `log`."""
        self.log = log
        self.is_attached = True
        self.should_stop = False
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        # The end of a child wakes wait(), so that the child is reaped at once.
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        signal.set_wakeup_fd(self._wake_write)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def wait(self, seconds: float) -> None:
        """Returns after `seconds`, or earlier when something happens."""
        sources = [self._wake_read] + ([0] if self.is_attached else [])
        ready, _, _ = select.select(sources, [], [], seconds)
        if self._wake_read in ready:
            os.read(self._wake_read, 4096)
        if 0 in ready:
            self._read_stdin()

    def check(self) -> None:
        """Raises ClusterError when it is time to stop. For the slow start."""
        self.wait(0)
        if self.should_stop:
            raise ClusterError("the start was stopped before the cluster was ready")

    def _read_stdin(self) -> None:
        said = os.read(0, 4096)
        if DETACH.encode() in said:
            self.is_attached = False
            announce(DETACH)
            self.redirect_output()
        elif not said:
            self.should_stop = True

    def redirect_output(self) -> None:
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for descriptor in (1, 2):
            os.dup2(log, descriptor)
        os.close(log)

    def _on_signal(self, *_: object) -> None:
        self.should_stop = True


def announce(line: str) -> None:
    """Prints `line`. Ignores a closed stdout, since the end of stdin shows the same."""
    try:
        print(line, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def keep_control_plane(folder: ClusterFolder, tools: Path, definitions: Path) -> None:
    """Runs a control plane until the lifeline ends, then removes everything."""
    lock = folder.claim()
    lifeline = Lifeline(folder.path / "runner.log")
    components = Components(folder.path / "logs", lock, on_wait=lifeline.check)
    try:
        plane = _start_on_free_ports(folder, tools, components)
        plane.apply_definitions(definitions)
        folder.write_status(describe(plane))
        announce("ready")
        tend_until_stopped(folder, plane, lifeline)
    finally:
        components.kill_all()
        os.close(lock)
        folder.remove()


def keep_cluster(folder: ClusterFolder, tools: Path, definitions: Path | None) -> None:
    """Runs a whole cluster until the lifeline ends, then removes everything. Its parts are in a sandbox, whose first process is `keep_inside`."""
    installed = ["--definitions", str(definitions)] if definitions else []
    lock = folder.claim()
    lifeline = Lifeline(folder.path / "runner.log")
    sandbox = Sandbox(lock)
    try:
        make_control_group(folder.control_group())
        inside = sandbox.start([sys.executable, "-m", "trainyard_cluster", "inside", "--dir", str(folder.path),
                                *installed, "--lock-fd", str(lock)])
        _, address = sandbox.join_to_machine()
        (folder.path / "sandbox").write_text(str(sandbox.pid))
        inside.stdin.write(f"{address}\n".encode())
        inside.stdin.flush()
        _relay(inside, lifeline)
    finally:
        sandbox.kill()
        os.close(lock)
        folder.remove()


def _relay(inside: subprocess.Popen, lifeline: Lifeline) -> None:
    """Prints the output of the first process inside, until that process or the lifeline ends."""
    os.set_blocking(inside.stdout.fileno(), False)
    while not lifeline.should_stop:
        if inside.poll() is not None:
            raise ClusterError("the cluster's first process ended, and so did the cluster; `scripts/cluster up` starts it again")
        if said := inside.stdout.read():
            announce(said.decode().rstrip())
        lifeline.wait(0.1)


def keep_inside(folder: ClusterFolder, tools: Path, definitions: Path | None, lock: int) -> None:
    """The first process of the sandbox: all other processes in it are its children, and end with it."""
    lifeline = Lifeline(folder.path / "inside.log")
    address = sys.stdin.readline().strip()
    prepare_inside(folder.path, address, (API_SERVICE_ADDRESS,), BRIDGE, BRIDGE_ADDRESS)
    components = Components(folder.path / "logs", lock, on_wait=lifeline.check)
    plane = ControlPlane(folder.path, tools, components, sandbox_addresses(address))
    node = Node(plane, folder.control_group())
    node.start_runtime()
    plane.start(with_scheduler=True)
    node.start()
    if definitions:
        plane.apply_definitions(definitions)
    folder.write_status(describe(plane))
    folder.hand_to_caller(plane.kubeconfig)
    announce("ready")
    lifeline.redirect_output()
    tend_until_stopped(folder, plane, lifeline)


def tend_until_stopped(folder: ClusterFolder, plane: ControlPlane, lifeline: Lifeline) -> None:
    written = None
    while not lifeline.should_stop:
        plane.components.tend()
        if (status := describe(plane)) != written:
            folder.write_status(status)
            written = status
        lifeline.wait(0.5)


def _start_on_free_ports(folder: ClusterFolder, tools: Path, components: Components) -> ControlPlane:
    """Starts the control plane. When another process has taken one of the chosen ports, tries again with other ports."""
    for _ in range(ATTEMPTS_MAX - 1):
        try:
            return _start(folder, tools, components)
        except ClusterError as error:
            if "address already in use" not in str(error):
                raise
            components.kill_all()
            folder.clear()
    return _start(folder, tools, components)


def _start(folder: ClusterFolder, tools: Path, components: Components) -> ControlPlane:
    plane = ControlPlane(folder.path, tools, components, loopback_addresses())
    plane.start(with_scheduler=False)
    return plane


def describe(plane: ControlPlane) -> dict:
    return {
        "server": plane.addresses.server,
        "etcd": plane.addresses.etcd,
        "kubeconfig": str(plane.kubeconfig),
        "components": {c.name: {"pid": c.pid, "restarts": c.restarts} for c in plane.components.all.values()},
    }
