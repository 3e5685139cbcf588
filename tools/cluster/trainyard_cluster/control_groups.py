"""The control groups of a node's pods, in the many hierarchies of version 1 or the one of version 2."""

import os
import time
from pathlib import Path

from .failure import ClusterError

REMOVE_SECONDS = 20


def control_group_roots() -> list[Path]:
    """Where control groups are made: each controller's hierarchy in version 1, the one hierarchy in version 2."""
    root = Path("/sys/fs/cgroup")
    if not root.exists():
        return []
    if (root / "cgroup.controllers").exists():
        return [root]
    return sorted(entry for entry in root.iterdir() if entry.is_dir() and not entry.is_symlink())


def make_control_group(name: str) -> None:
    for root in control_group_roots():
        if (root / "cgroup.subtree_control").exists():
            controllers = (root / "cgroup.controllers").read_text().split()
            (root / "cgroup.subtree_control").write_text(" ".join("+" + c for c in controllers))
        group = root / name
        group.mkdir(exist_ok=True)
        # A new cpuset is empty in version 1, and no process may enter an empty one.
        for setting in ("cpuset.cpus", "cpuset.mems"):
            if (root / setting).exists():
                (group / setting).write_text((root / setting).read_text())


def remove_control_group(name: str) -> None:
    """Removes the group if it exists. Its processes must have ended; waits until the kernel has noticed."""
    for root in control_group_roots():
        for folder, _, _ in os.walk(root / name, topdown=False):
            _remove_empty_group(Path(folder))


def _remove_empty_group(group: Path) -> None:
    deadline = time.monotonic() + REMOVE_SECONDS
    while True:
        try:
            group.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise ClusterError(f"control group {group} cannot be removed: {error.strerror}") from error
            time.sleep(0.05)
