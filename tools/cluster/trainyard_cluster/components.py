"""Starts the cluster's server processes, restarts those that end, and ends all of them with the process that started them."""

import dataclasses
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Callable

from .failure import ClusterError

RESTART_DELAY_SECONDS = 1.0
LOG_TAIL_LINES = 15


@dataclasses.dataclass
class Component:
    name: str
    command: list[str]
    pid: int = 0
    restarts: int = 0
    ended_at: float | None = None


class Components:
    """Use it on the process's first thread only: the kernel kills a child when the thread that started the child ends."""

    def __init__(self, log_folder: Path, lock_fd: int, on_wait: Callable[[], None]):
        """Calls `on_wait` while it waits for a component; an exception of `on_wait` ends the wait."""
        self.on_wait = on_wait
        self.log_folder = log_folder
        self.lock_fd = lock_fd  # Every child holds the lock too: it is free only when all of them are gone.
        self.all: dict[str, Component] = {}

    def start(self, name: str, command: list[object]) -> None:
        self.log_folder.mkdir(parents=True, exist_ok=True)
        component = Component(name, [str(word) for word in command])
        self.all[name] = component
        self._spawn(component)

    def wait_until(self, name: str, what: str, is_true: Callable[[], bool], deadline_seconds: float = 180) -> None:
        """Returns once `is_true()`. Raises ClusterError, with the end of the log, when `name` ends first or the deadline passes."""
        component = self.all[name]
        deadline = time.monotonic() + deadline_seconds
        while not is_true():
            if _has_ended(component.pid):
                raise ClusterError(f"{name} ended before it was {what}; its log ends:\n{self.log_tail(name)}")
            if time.monotonic() > deadline:
                raise ClusterError(f"{name} was not {what} after {deadline_seconds:.0f} s; its log ends:\n{self.log_tail(name)}")
            self.on_wait()
            time.sleep(0.05)

    def tend(self) -> None:
        """Reaps children that have ended (as the init of a namespace also orphans), and restarts components after a second."""
        while (pid := _reap_one()) != 0:
            for component in self.all.values():
                if component.pid == pid:
                    component.pid, component.ended_at = 0, time.monotonic()
        for component in self.all.values():
            if component.ended_at is not None and time.monotonic() - component.ended_at >= RESTART_DELAY_SECONDS:
                component.restarts += 1
                self._spawn(component)

    def kill_all(self) -> None:
        """Sends SIGKILL in the reverse order of the start. Their state is not needed any more."""
        alive = [c for c in reversed(self.all.values()) if c.pid != 0]
        for component in alive:
            os.kill(component.pid, signal.SIGKILL)  # Ours and not reaped yet: the number cannot be another's.
        for component in alive:
            try:
                os.waitpid(component.pid, 0)
            except ChildProcessError:
                pass
            component.pid = 0

    def log_tail(self, name: str) -> str:
        lines = (self.log_folder / f"{name}.log").read_text(errors="replace").splitlines()
        return "\n".join("  " + line[:400] for line in lines[-LOG_TAIL_LINES:])

    def _spawn(self, component: Component) -> None:
        with open(self.log_folder / f"{component.name}.log", "ab") as log:
            child = subprocess.Popen(  # pylint: disable=consider-using-with
                ["setpriv", "--pdeathsig", "KILL", "--", *component.command],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, pass_fds=(self.lock_fd,))
        child.returncode = 0  # We reap by ourselves; without this Python warns about a child still running.
        component.pid, component.ended_at = child.pid, None


def _has_ended(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _reap_one() -> int:
    try:
        return os.waitpid(-1, os.WNOHANG)[0]
    except ChildProcessError:
        return 0
