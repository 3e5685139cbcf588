"""The folder of one cluster: who holds it, whether the cluster runs, and how it is ended.

The *runner* is the process of `scripts/cluster run`. It and every process that it starts hold a lock on the file `lock`, so a free lock
means that no process of the cluster runs any more.
"""

import fcntl
import json
import os
import select
import shutil
import signal
import time
from pathlib import Path

from .control_groups import remove_control_group
from .failure import ClusterError

STOP_SECONDS = 20


class ClusterFolder:
    def __init__(self, path: Path):
        self.path = path.absolute()

    @property
    def lock_path(self) -> Path:
        return self.path / "lock"

    def claim(self) -> int:
        """Makes this process the runner and the folder empty; returns the lock's descriptor. Removes what a killed runner left."""
        if self.path.exists() and not self.lock_path.exists() and any(self.path.iterdir()):
            raise ClusterError(f"{self.path} contains files that are not a cluster's; name an empty or a new folder")
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        give_up_at = time.monotonic() + STOP_SECONDS
        while (lock := self._try_lock(create=True)) is None:
            # The processes of a runner that was killed take a moment to end.
            if self._runner() or time.monotonic() > give_up_at:
                raise ClusterError(f"a cluster runs in {self.path} already; `scripts/cluster down --dir {self.path}` ends it")
            time.sleep(0.05)
        self.clear()
        os.ftruncate(lock, 0)
        os.write(lock, str(os.getpid()).encode())
        return lock

    def is_running(self) -> bool:
        if not self.lock_path.exists():
            return False
        lock = self._try_lock()
        if lock is None:
            return self.lock_path.exists()
        os.close(lock)
        return False

    def stop(self) -> bool:
        """Ends the cluster, if one runs, and removes the folder. False when there was no folder."""
        if not self.path.exists():
            return False
        if not self.lock_path.exists() and any(self.path.iterdir()):
            raise ClusterError(f"{self.path} is not the folder of a cluster; nothing was changed")
        runner = self._runner()
        self._signal_runner(signal.SIGTERM)
        self.remove()
        _wait_for_end(runner)
        return True

    def remove(self) -> None:
        """Waits until the cluster has ended, then removes the folder. Kills a runner that does not end in time."""
        kill_at = time.monotonic() + STOP_SECONDS / 2
        give_up_at = time.monotonic() + STOP_SECONDS
        while (lock := self._try_lock()) is None:
            if not self.lock_path.exists():
                return  # Another process removed it.
            if time.monotonic() > give_up_at:
                raise ClusterError(f"the processes of {self.path} did not end within {STOP_SECONDS} s; `scripts/cluster down` tries again")
            if time.monotonic() > kill_at:
                self._signal_runner(signal.SIGKILL)
            time.sleep(0.05)
        self.clear()
        # Remove the lock last: while we hold it, no other process changes the folder.
        self.lock_path.unlink()
        self.path.rmdir()
        os.close(lock)

    def clear(self) -> None:
        """Removes everything except the lock: what a killed runner or a failed start left. The caller must hold the lock."""
        remove_control_group(self.control_group())
        for entry in self.path.iterdir():
            if entry == self.lock_path:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()

    def write_status(self, status: dict) -> None:
        """Writes a new file and renames it, so that readers always find a whole status."""
        new = self.path / "status.json.new"
        new.write_text(json.dumps(status, indent=2) + "\n")
        new.rename(self.path / "status.json")

    def read_status(self) -> dict:
        try:
            return json.loads((self.path / "status.json").read_text())
        except FileNotFoundError:
            return {}

    def hand_to_caller(self, file: Path) -> None:
        """Lets the user who called us by sudo read a file of the folder."""
        if user := os.environ.get("SUDO_UID"):
            os.chown(file, int(user), -1)
            self.path.chmod(0o711)

    def control_group(self) -> str:
        """The name of the node's control group: one for each folder, the same each time, so that leftovers are found."""
        return "trainyard-" + format(hash_of(str(self.path)), "08x")

    def _try_lock(self, *, create: bool = False) -> int | None:
        """The lock's descriptor; None when another process holds it or the file does not exist."""
        try:
            lock = os.open(self.lock_path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o600)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its holder may have removed the file between our two calls; then we hold the lock of a removed file.
            if os.fstat(lock).st_ino == os.stat(self.lock_path).st_ino:
                return lock
        except (BlockingIOError, FileNotFoundError):
            pass
        os.close(lock)
        return None

    def _signal_runner(self, number: signal.Signals) -> None:
        if runner := self._runner():
            try:
                os.kill(runner, number)
            except ProcessLookupError:
                pass  # It ended just now.

    def _runner(self) -> int:
        """The runner's process id; 0 when it is dead, even if another process has its number by now."""
        try:
            pid = int(self.lock_path.read_text() or "0")
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ValueError, ProcessLookupError):
            return 0
        return pid if str(self.path).encode() in words else 0


def _wait_for_end(pid: int) -> None:
    """Waits for the end of a process that is about to end."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return  # It has ended, or there was none.
    select.select([handle], [], [], STOP_SECONDS)
    os.close(handle)


def hash_of(text: str) -> int:
    """32 bits of FNV-1a: Python's own hash differs from run to run."""
    value = 0x811C9DC5
    for byte in text.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value
