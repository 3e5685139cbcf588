#!/usr/bin/env python3
"""trainyard-worker below Slurm's srun, on two nodes of a cluster on this machine. Usage: slurm_launch_test.py WORKER"""

import os
import re
import signal
import sys
import tempfile
import unittest

from launched_job import LauncherTest, cannot_run, variables
from slurm_cluster import SlurmCluster, why_not

LauncherTest.worker = sys.argv.pop(1)
ENDLESS = {"maxSteps": 1_000_000}


class BelowSrun(LauncherTest):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        cls.addClassCleanup(scratch.cleanup)
        cls.cluster = SlurmCluster(scratch.name)
        cls.addClassCleanup(cls.cluster.end)
        cls.cluster.start()

    def setUp(self):
        super().setUp()
        self.addCleanup(self.cluster.end_jobs)

    def slurm(self, *command, environment=None):
        return self.launch(command, {**self.cluster.environment, **(environment or variables(self.folder))}, "rank-*.log")

    def srun(self, nodes, *command, environment=None):
        options = ["srun", f"--nodes={nodes}", "--ntasks=2", "--overcommit", "--output=rank-%t.log"]
        return self.slurm(*options, *(command or [self.worker]), environment=environment)

    def test_two_ranks_on_one_node(self):
        self.expect_same_training(self.srun(1))

    def test_two_ranks_on_two_nodes(self):
        self.expect_same_training(self.srun(2))

    def test_a_rank_is_told_its_place_in_trainyards_words(self):
        script = self.folder / "place"
        script.write_text("#!/bin/sh\necho rank $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE on node $NODE_RANK, meets at "
                          "$MASTER_ADDR:$MASTER_PORT $TRAINYARD_STORE_PORT $TRAINYARD_PEER_PORT, job $SLURM_JOB_ID\n")
        script.chmod(0o755)
        for nodes, second in (1, "1 of 2 on node 0"), (2, "0 of 1 on node 1"):
            launch = self.srun(nodes, self.worker, "--rank-program", str(script))
            self.expect_end(launch, 0)
            port = 15000 + 3 * (int(re.search(r"job (\d+)", launch.logs())[1]) % 4800)
            meeting = f"meets at node1:{port} {port + 1} {port + 2}, "
            self.assertIn(f"rank 0 of 2, 0 of {3 - nodes} on node 0, {meeting}", launch.logs())
            self.assertIn(f"rank 1 of 2, {second}, {meeting}", launch.logs())

    def test_a_killed_rank_ends_the_group(self):
        launch = self.srun(2, environment=variables(self.folder, **ENDLESS))
        self.wait_for_steps(launch)
        os.kill(launch.pid_of_rank(1), signal.SIGKILL)
        self.expect_end(launch, 137)  # The highest code of all tasks.
        self.assertIn('"message":"ended","reason":"Killed","exitCode":137,"error":"rank 1 was killed by signal 9 (SIGKILL)"', launch.logs())
        self.assertIn('"message":"ended","reason":"PeerLost","exitCode":90,"error":"rank 1 was killed by signal 9 (SIGKILL)"', launch.logs())

    def test_a_cancelled_job_saves_and_goes_on_from_there(self):
        environment = variables(self.folder, **ENDLESS)
        launch = self.srun(2, environment=environment)
        self.wait_for_steps(launch)
        self.cluster.output("scancel", "--name=trainyard-worker")
        launch.wait()
        self.assertIn('"reason":"Preempted","exitCode":91', launch.logs())
        second = self.srun(2, environment=environment)
        self.wait_until(second, "a resume", lambda: "resumed from a checkpoint" in second.logs())

    def test_a_batch_script_starts_the_ranks_by_srun(self):
        launch = self.slurm("sbatch", "--wait", "--nodes=2", "--ntasks=2", "--overcommit", "--output=rank-all.log",
                            f"--wrap=srun --overcommit {self.worker}")
        self.expect_same_training(launch)

    def test_a_worker_in_a_batch_script_that_asks_for_no_tasks_is_alone(self):
        launch = self.slurm("sbatch", "--wait", "--output=rank-0.log", f"--wrap={self.worker}")
        self.expect_end(launch, 0)
        self.assertIn('"message":"training begins","model":"fashion_cnn","worldSize":1', launch.logs())

    def test_a_worker_in_the_shell_of_an_allocation_asks_for_srun(self):
        launch = self.slurm("salloc", "--ntasks=2", "--overcommit", self.worker)
        self.expect_end(launch, 93)
        self.assertIn("SLURM_NTASKS is set, but SLURM_PROCID is not; srun sets both: in the shell of an allocation start the worker by srun",
                      launch.logs())


if __name__ == "__main__":
    reason = why_not()
    if reason:
        cannot_run(reason)
    unittest.main()
