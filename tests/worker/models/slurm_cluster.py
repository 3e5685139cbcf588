"""A Slurm cluster of two nodes on this machine, in a folder of its own, on free ports of the loopback. Needs root."""

import os
import pathlib
import shutil
import socket
import subprocess
import time

from launched_job import PATIENCE_SECONDS, free_ports

NODES = ("node1", "node2")
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "unshare", "setpriv")

CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
MailProg=/bin/true
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
FirstJobId={first_job}
NodeName=node[1-2] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{node_port}-{last_node_port}] CPUs={cpus}
PartitionName=all Nodes=ALL Default=YES
"""


def why_not():
    """Why there can be no cluster on this machine; empty if there can."""
    # Debian's folder of the daemons is not in every user's PATH.
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    if missing:
        return f"{', '.join(missing)} not found: scripts/setup test installs Slurm"
    if os.geteuid() != 0:
        return "Slurm's daemons need root to start the tasks of a job"
    if subprocess.run(["unshare", "--mount", "true"], check=False).returncode != 0:
        return "no mount namespace can be made here, in which the nodes' names could resolve"
    return ""


class SlurmCluster:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.daemons = []
        self.environment = {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def start(self):
        ports = free_ports(3)
        host = socket.gethostname().split(".")[0]
        self.folder.chmod(0o755)  # munged takes no socket in a folder that others cannot enter.
        (self.folder / "state").mkdir()
        (self.folder / "hosts").write_text(f"127.0.0.1 localhost {host} {' '.join(NODES)}\n")
        # The number decides about the ports of a job's ranks: another one for each cluster on this machine.
        self.first_job = 1 + int.from_bytes(os.urandom(2), "little")
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(
            folder=self.folder, host=host, controller_port=ports, node_port=ports + 1, last_node_port=ports + 2, cpus=os.cpu_count(),
            first_job=self.first_job))
        key = self.folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(os.urandom(1024))
        self._start("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.folder}/munge.socket",
                    f"--pid-file={self.folder}/munged.pid", f"--log-file={self.folder}/munged.log", f"--seed-file={self.folder}/munged.seed")
        self._wait_until((self.folder / "munge.socket").exists)
        self._start("slurmctld", "-D")
        for node in NODES:
            # The ranks are children of slurmd, and find each other by the nodes' names.
            self._start("unshare", "--mount", "sh", "-c", f"mount --bind {self.folder}/hosts /etc/hosts && exec slurmd -D -N {node}")
        self._wait_until_idle()

    def output(self, *command):
        done = subprocess.run(command, env={**os.environ, **self.environment}, capture_output=True, text=True, check=False)
        return done.stdout

    def end_jobs(self):
        """A job outlives an srun that was killed."""
        self.output("scancel", "--full", "--signal=KILL", "--user=root")
        self._wait_until_idle()

    def end(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
            daemon.wait(PATIENCE_SECONDS)

    def _wait_until_idle(self):
        self._wait_until(lambda: self.output("sinfo", "--noheader", "--format=%D %T").strip() == f"{len(NODES)} idle")

    def _start(self, *command):
        # A cluster ends with this process, however that ends.
        with open(self.folder / f"daemon-{len(self.daemons)}.log", "w") as log:
            self.daemons.append(subprocess.Popen(["setpriv", "--pdeathsig", "TERM", *command], env={**os.environ, **self.environment},
                                                 stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def _wait_until(self, is_so):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_so():
            ended = [daemon.args for daemon in self.daemons if daemon.poll() is not None]
            if ended or time.monotonic() > deadline:
                logs = "".join(f"\n--- {log.name}\n{log.read_text()}" for log in sorted(self.folder.glob("*.log")))
                raise AssertionError(f"not all nodes are idle; daemons that have ended: {ended}{logs}")
            time.sleep(0.05)
