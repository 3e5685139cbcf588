#!/usr/bin/env python3
"""trainyard-worker below the mpirun of Open MPI and the mpiexec of MPICH. Usage: mpi_launch_test.py WORKER"""

import os
import shutil
import signal
import sys
import unittest

from launched_job import LauncherTest, cannot_run, free_ports, variables

LauncherTest.worker = sys.argv.pop(1)
ENDLESS = {"maxSteps": 1_000_000}
# In place of ssh: HOST and a command, which sees none of this machine's variables. MPICH says -x before the host.
AGENT = '#!/bin/sh\n[ "$1" = -x ] && shift\nshift\nexec env -i PATH="$PATH" HOME="$HOME" sh -c "$*"\n'
KILLED = '"message":"ended","reason":"Killed","exitCode":137,"error":"rank 1 was killed by signal 9 (SIGKILL)"'
PEER_LOST = '"message":"ended","reason":"PeerLost","exitCode":90,"error":"rank 1 was killed by signal 9 (SIGKILL)"'


class MpiTest(LauncherTest):
    def agent(self):
        path = self.folder / "agent"
        path.write_text(AGENT)
        path.chmod(0o755)
        return str(path)

    def expect_goes_on(self, start, code):
        """A job that is asked to stop saves, and the next one resumes."""
        environment = variables(self.folder, **ENDLESS)
        first = start(environment)
        self.wait_for_steps(first)
        first.process.send_signal(signal.SIGTERM)
        self.expect_end(first, code)
        self.assertIn('"reason":"Preempted","exitCode":91', first.logs())
        second = start(environment)
        self.wait_until(second, "a resume", lambda: "resumed from a checkpoint" in second.logs())

    def kill_rank1(self, launch):
        self.wait_for_steps(launch)
        os.kill(launch.pid_of_rank(1), signal.SIGKILL)


class OpenMpi(MpiTest):
    def mpirun(self, *options, environment=None):
        environment = environment or variables(self.folder)
        names = [option for name in environment for option in ("-x", name)]
        # Ranks that are asked to stop have eight seconds in place of one.
        command = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--output-filename", "ranks", "--mca", "odls_base_sigkill_timeout", "8",
                   "-np", "2", *names, "-x", f"MASTER_PORT={free_ports(3)}", *options, self.worker]
        return self.launch(command, environment, "ranks/*/rank.*/std*")

    def on_two_hosts(self):
        return ["--mca", "plm_rsh_agent", self.agent(), "--mca", "oob_tcp_if_include", "lo", "-H", "host1:1,host2:1"]

    def test_two_ranks_on_one_host_need_nothing_else(self):
        self.expect_same_training(self.mpirun())

    def test_two_hosts_are_told_where_to_meet(self):
        self.expect_same_training(self.mpirun("-x", "MASTER_ADDR=127.0.0.1", *self.on_two_hosts()))

    def test_two_hosts_that_are_not_told_where_to_meet_say_so(self):
        launch = self.mpirun(*self.on_two_hosts())
        self.expect_end(launch, 93)
        self.assertIn("OMPI_COMM_WORLD_SIZE is 2, but neither MASTER_ADDR nor SLURM_JOB_NODELIST says where rank 0 is", launch.logs())

    def test_a_killed_rank_ends_the_group(self):
        launch = self.mpirun(environment=variables(self.folder, **ENDLESS))
        self.kill_rank1(launch)
        self.expect_end(launch, 137, 90)  # The code of the rank that ends first.
        self.assertIn(KILLED, launch.logs())
        self.assertIn(PEER_LOST, launch.logs())

    def test_a_job_that_is_asked_to_stop_saves_and_goes_on_from_there(self):
        self.expect_goes_on(lambda environment: self.mpirun(environment=environment), code=1)


class Mpich(MpiTest):
    def mpiexec(self, *options, environment=None):
        environment = environment or variables(self.folder)
        command = ["mpiexec.mpich", "-n", "2", "-outfile-pattern", "rank-%r.log", "-errfile-pattern", "rank-%r.err", "-genvlist", ",".join(environment),
                   "-genv", "MASTER_PORT", str(free_ports(3)), *options, self.worker]
        return self.launch(command, environment, "rank-*")

    def on_two_hosts(self):
        return ["-launcher", "ssh", "-launcher-exec", self.agent(), "-hosts", "host1,host2"]

    def test_two_ranks_on_one_host_need_nothing_else(self):
        self.expect_same_training(self.mpiexec())

    def test_two_hosts_are_told_where_to_meet(self):
        self.expect_same_training(self.mpiexec("-genv", "MASTER_ADDR", "127.0.0.1", *self.on_two_hosts()))

    def test_a_killed_rank_ends_the_group(self):
        launch = self.mpiexec(environment=variables(self.folder, **ENDLESS))
        self.kill_rank1(launch)
        self.expect_end(launch, 137 | 90)  # All codes together, bit by bit.
        self.assertIn(KILLED, launch.logs())
        self.assertIn(PEER_LOST, launch.logs())

    def test_a_job_that_is_asked_to_stop_saves_and_goes_on_from_there(self):
        self.expect_goes_on(lambda environment: self.mpiexec(environment=environment), code=91)


if __name__ == "__main__":
    missing = [program for program in ("mpirun.openmpi", "mpiexec.mpich") if not shutil.which(program)]
    if missing:
        cannot_run(f"{', '.join(missing)} not found: scripts/setup test installs Open MPI and MPICH")
    unittest.main()
