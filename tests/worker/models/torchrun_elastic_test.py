"""trainyard-worker below PyTorch's torchrun, whose group is restarted, grows and shrinks: each sample of an epoch is trained exactly once."""

import collections
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from launched_job import free_ports, kill_with_children, processes_below

TORCHRUN, WORKER = sys.argv.pop(), sys.argv.pop()
PATIENCE_SECONDS = 150
SAMPLES = 400
BATCH = 2
SAVED_EVERY = 40


class Agent:
    """One node's torchrun. Its ranks' records go into the folder of the job."""

    def __init__(self, folder, name, *options, shares_store):
        self.log = folder / f"{name}.log"
        self.name = name
        spec = {
            "training": {
                "model": {"name": "fashion_cnn"},
                "epochs": 10_000,
                "batchSize": BATCH,
                "data": {"format": "synthetic", "samples": SAMPLES},
            },
            "checkpoint": {"uri": f"file://{folder}/checkpoints", "every": {"steps": SAVED_EVERY}},
        }
        environment = dict(
            os.environ,
            OMP_NUM_THREADS="1",
            CUDA_VISIBLE_DEVICES="-1",
            TORCH_DISABLE_SHARE_RDZV_TCP_STORE="0" if shares_store else "1",
            TRAINYARD_LOG_FORMAT="text",
            TRAINYARD_RECORD_SAMPLES=str(folder / "records.jsonl"),
            TRAINYARD_SPEC=json.dumps(spec),
        )
        command = [TORCHRUN, "--max-restarts", "3", *options, "--no-python", WORKER]
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def ranks(self):
        return processes_below(self.process.pid)[1:]

    def kill_node(self):
        kill_with_children(self.process)


class Elastic(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        (self.folder / "checkpoints").mkdir()
        self.agents = []

    def start(self, name, *options, shares_store=False):
        agent = Agent(self.folder, name, *options, shares_store=shares_store)
        self.agents.append(agent)
        self.addCleanup(agent.kill_node)
        return agent

    def logs(self):
        return "".join(f"\n--- {agent.name}\n{agent.log.read_text()}" for agent in self.agents)

    def records(self):
        path = self.folder / "records.jsonl"
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines]

    def wait_until(self, what, is_so):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_so():
            if time.monotonic() > deadline or self.agents[0].process.poll() is not None:
                self.fail(f"{what} did not come about{self.logs()}")
            time.sleep(0.05)

    def wait_for_records(self, what, count, rank):
        seen = len(self.records())
        self.wait_until(what, lambda: sum(record["rank"] == rank for record in self.records()[seen:]) >= count)

    def steps(self):
        """What was trained: {step: {rank: samples}}, for each step of the group that did the step last."""
        steps = collections.defaultdict(dict)
        newest, returns = {}, collections.Counter()
        for record in self.records():
            rank, step = record["rank"], record["step"]
            if step <= newest.get(rank, 0):  # A new group has resumed from an earlier step.
                returns[rank] += 1
                if rank == 0:
                    for done in [done for done in steps if done >= step]:
                        steps[done] = {other: kept for other, kept in steps[done].items() if kept[0] == returns[0]}
            newest[rank] = step
            steps[step][rank] = (returns[rank], record["ids"])
        return {step: {rank: ids for rank, (_, ids) in steps[step].items()} for step in sorted(steps)}

    def stop_and_expect_each_sample_once(self, agent):
        """Returns the numbers of ranks that did steps."""
        agent.process.send_signal(signal.SIGTERM)
        agent.process.wait(PATIENCE_SECONDS)
        steps = self.steps()
        self.assertEqual(list(steps), list(range(1, len(steps) + 1)), "no step is missing")
        in_order = [sample for ranks in steps.values() for ids in ranks.values() for sample in ids]
        epochs = [in_order[begin : begin + SAMPLES] for begin in range(0, len(in_order), SAMPLES)]
        self.assertGreater(len(epochs), 1)
        for number, samples in enumerate(epochs, 1):
            self.assertEqual(len(set(samples)), len(samples), f"epoch {number} has a sample twice{self.logs()}")
        return {len(ranks) for ranks in steps.values()}

    def test_a_group_grows_and_loses_a_node(self):
        endpoint = f"127.0.0.1:{free_ports(1)}"
        options = ["--nnodes", "1:2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint, "--rdzv-id", "grows"]
        timing = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=8"
        first = self.start("first", *options, "--rdzv-conf", f"is_host=1,{timing}")
        self.wait_for_records("the first node's training", 30, rank=0)
        second = self.start("second", *options, "--rdzv-conf", f"is_host=0,{timing}")
        self.wait_for_records("training on two nodes", 3 * SAVED_EVERY, rank=1)
        second.kill_node()
        self.wait_for_records("training on the node that is left", SAMPLES // BATCH, rank=0)
        self.assertEqual(self.stop_and_expect_each_sample_once(first), {1, 2}, "steps were done by one rank, and by two")
        self.assertIn("the checkpoint is of another number of ranks", self.logs())

    def test_a_group_whose_rank_is_killed_goes_on_in_the_agents_store(self):
        agent = self.start("alone", "--standalone", "--nproc-per-node", "2", shares_store=True)
        # Between two checkpoints, so that the next group repeats steps.
        self.wait_until("training", lambda: any(r["step"] > 60 and r["step"] % SAVED_EVERY == 20 for r in self.records()[-2:]))
        os.kill(agent.ranks()[-1], signal.SIGKILL)
        self.wait_for_records("training after the restart", SAMPLES // BATCH, rank=1)
        self.assertEqual(self.stop_and_expect_each_sample_once(agent), {2})
        self.assertGreaterEqual(agent.log.read_text().count("training begins"), 2)


if __name__ == "__main__":
    unittest.main()
