"""A second cluster beside that of these tests: they do not disturb each other, and a killed cluster leaves nothing."""

import os
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from harness.cluster import SCRIPT
from harness.waiting import eventually
from trainyard_cluster.state import ClusterFolder


@pytest.fixture(name="folder")
def _folder():
    with tempfile.TemporaryDirectory(prefix="trainyard-e2e-second-", dir="/var/tmp") as parent:
        folder = Path(parent) / "cluster"
        yield folder
        subprocess.run([SCRIPT, "down", "--dir", str(folder)], check=True)


def leftovers(folder: Path, group: str) -> dict[str, list[str]]:
    mounts = [line for line in Path("/proc/mounts").read_text().splitlines() if str(folder) in line]
    processes = [entry.parent.name for entry in Path("/proc").glob("[0-9]*/cmdline") if str(folder).encode() in _read(entry)]
    groups = [str(path) for path in Path("/sys/fs/cgroup").glob(f"*/{group}")]
    return {"mounts": mounts, "processes": processes, "groups": groups}


def devices() -> set[str]:
    return {device for device in os.listdir("/sys/class/net") if device.startswith("trainyard")}


def test_a_killed_cluster_leaves_nothing_and_the_next_one_starts(cluster, folder):  # pylint: disable=unused-argument
    before = devices()  # Some may be of clusters that have just ended, and go while this test runs.

    def up() -> None:
        subprocess.run([SCRIPT, "up", "--dir", str(folder)], check=True, stdout=subprocess.DEVNULL)

    up()
    group = ClusterFolder(folder).control_group()
    assert leftovers(folder, group)["groups"]
    assert devices() - before
    os.kill(int((folder / "lock").read_text()), signal.SIGKILL)
    eventually("no device, process or mount is left", lambda: (devices() - before, leftovers(folder, "none")),
               lambda left: left == (set(), {"mounts": [], "processes": [], "groups": []}), within=30)
    up()
    nodes = subprocess.run([SCRIPT, "kubectl", "--dir", str(folder), "--", "get", "nodes"], check=True, capture_output=True, text=True).stdout
    assert " Ready " in nodes
    subprocess.run([SCRIPT, "down", "--dir", str(folder)], check=True)
    assert not folder.exists()
    assert leftovers(folder, group) == {"mounts": [], "processes": [], "groups": []}
    eventually("no new device is left", devices, lambda left: left <= before, within=30)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
