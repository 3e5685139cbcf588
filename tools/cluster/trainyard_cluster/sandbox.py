"""A cluster's own namespaces (network, mounts, processes). When their first process ends, the kernel removes everything in them:
processes of pods, mounts, bridges."""

import os
import signal
import subprocess
import time
from pathlib import Path

from .failure import ClusterError

UPLINK = "uplink"  # The inner end of the pair of devices that joins the sandbox to the machine.
UPLINKS_MAX = 200
START_SECONDS = 30


class Sandbox:
    """The runner starts it, stays outside, and ends it with itself."""

    def __init__(self, lock_fd: int):
        self.lock_fd = lock_fd
        self.process: subprocess.Popen | None = None

    def start(self, command: list[str]) -> subprocess.Popen:
        """Runs `command` as the first process inside; its stdin and stdout are pipes to us."""
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            ["setpriv", "--pdeathsig", "KILL", "--", "unshare", "--mount", "--net", "--pid", "--ipc", "--fork", "--kill-child",
             "--mount-proc", "--propagation", "private", *command],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, pass_fds=(self.lock_fd,))
        return self.process

    @property
    def pid(self) -> int:
        """A process in the sandbox's network and mount namespaces."""
        return self.process.pid

    def join_to_machine(self) -> tuple[str, str]:
        """Makes a pair of devices; returns our address and the sandbox's, which the caller must set. They vanish with the sandbox."""
        self._wait_for_namespaces()
        for number in range(UPLINKS_MAX):
            # Two clusters that start at once compete for the device's name.
            device = f"trainyard{number}"
            made = _ip("link", "add", device, "type", "veth", "peer", "name", UPLINK, "netns", str(self.pid))
            if made.returncode == 0:
                ours, theirs = f"10.213.{number}.1", f"10.213.{number}.2"
                _ip_or_fail("addr", "add", f"{ours}/30", "dev", device)
                _ip_or_fail("link", "set", device, "up")
                return ours, theirs
            if "File exists" not in made.stderr:
                raise ClusterError(f"cannot make the network device {device}: {made.stderr.strip()}")
        raise ClusterError(f"{UPLINKS_MAX} clusters have a network device on this machine already: end one with `scripts/cluster down --dir FOLDER`")

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def _wait_for_namespaces(self) -> None:
        ours = os.stat("/proc/self/ns/net").st_ino
        deadline = time.monotonic() + START_SECONDS
        while True:
            if self.process.poll() is not None:
                raise ClusterError("unshare could not make the cluster's namespaces; it needs root with CAP_SYS_ADMIN")
            try:
                # The process namespace is the last to be made.
                if os.stat(f"/proc/{self.pid}/ns/net").st_ino != ours and Path(f"/proc/{self.pid}/ns/pid_for_children").exists():
                    return
            except OSError:
                pass
            if time.monotonic() > deadline:
                raise ClusterError(f"unshare made no namespaces within {START_SECONDS} s: start the cluster again when the machine is less busy")
            time.sleep(0.01)


def enter_command(pid: int) -> list[str]:
    """The words to put before a command so that it runs inside the sandbox of the process `pid` and ends with it."""
    return ["nsenter", f"--mount=/proc/{pid}/ns/mnt", f"--net=/proc/{pid}/ns/net", f"--pid=/proc/{pid}/ns/pid_for_children"]


def prepare_inside(folder: Path, address: str, local_addresses: tuple[str, ...], bridge: str, bridge_address: str) -> None:
    """Called by the first process inside: prepares the network, and the places outside the cluster's folder where programs write."""
    # Programs keep sockets, namespace files and logs in fixed places. Mount our own folders there.
    _run("mount", "-t", "tmpfs", "tmpfs", "/run")
    for name, place in (("pod-logs", "/var/log"), ("cni-cache", "/var/lib/cni")):
        (folder / name).mkdir()
        Path(place).mkdir(exist_ok=True)
        _run("mount", "--bind", folder / name, place)
    # Pods share mounts with the kubelet, but the machine sees none of them.
    _run("mount", "--make-rshared", "/")
    _ip_or_fail("link", "set", "lo", "up")
    for local in local_addresses:
        _ip_or_fail("addr", "add", f"{local}/32", "dev", "lo")
    _ip_or_fail("addr", "add", f"{address}/30", "dev", UPLINK)
    _ip_or_fail("link", "set", UPLINK, "up")
    # A bridge without a fixed address takes the address of a port, which changes with the pods: packets to it would be lost for seconds.
    _ip_or_fail("link", "add", bridge, "address", "02:00:0a:f4:00:01", "type", "bridge")
    _ip_or_fail("addr", "add", bridge_address, "dev", bridge)
    _ip_or_fail("link", "set", bridge, "up")


def _ip(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)


def _ip_or_fail(*arguments: str) -> None:
    done = _ip(*arguments)
    if done.returncode != 0:
        raise ClusterError(f"`ip {' '.join(arguments)}` failed: {done.stderr.strip()}")


def _run(*command: object) -> None:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(f"`{' '.join(map(str, command))}` failed: {done.stderr.strip()}")
