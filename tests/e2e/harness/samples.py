"""The samples that a training has used, as its ranks recorded them. They prove that a resumed training lost and repeated none."""

import json
from collections import defaultdict
from pathlib import Path

from harness.cluster import Cluster
from harness.jobs import worker

MOUNT = "/record"
FILE = "samples.jsonl"


class SampleRecord:
    """A folder of the node that the job's pods share."""

    def __init__(self, cluster: Cluster, name: str):
        self.folder = cluster.folder / "records" / name
        self.folder.mkdir(parents=True)
        self.folder.chmod(0o777)  # Pods run as somebody else than the tests.

    def container(self, **fields: object) -> dict:
        """The worker's container, which records samples."""
        return worker(environment={"TRAINYARD_RECORD_SAMPLES": f"{MOUNT}/{FILE}"},
                      volumeMounts=[{"name": "record", "mountPath": MOUNT}], **fields)

    def volume(self) -> dict:
        return {"name": "record", "hostPath": {"path": str(self.folder)}}

    def steps(self) -> dict[int, dict[int, list[int]]]:
        """attempt -> step -> the sample ids that its ranks recorded."""
        found: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for line in (self.folder / FILE).read_text().splitlines():
            entry = json.loads(line)
            found[entry["attempt"]][entry["step"]] += entry["ids"]
        return found

    def check_exactly_once(self, *, steps: int, samples: int, resumed_from: dict[int, int]) -> None:
        """AssertionError unless the current steps (each attempt's up to where the next one resumed) are 1 to `steps`, and use every
        sample once an epoch. `resumed_from`: attempt -> the step of the checkpoint that it began with."""
        by_attempt = self.steps()
        counted: dict[int, list[int]] = {}
        for attempt in sorted(by_attempt):
            first = min(by_attempt[attempt])
            assert first == resumed_from.get(attempt, 0) + 1, f"attempt {attempt} began with step {first}, not after its checkpoint"
            for step in [s for s in counted if s >= first]:
                del counted[step]
            counted.update(by_attempt[attempt])
        assert sorted(counted) == list(range(1, steps + 1)), f"steps {sorted(counted)}"
        used = [sample for step in sorted(counted) for sample in counted[step]]
        for begin in range(0, len(used), samples):
            epoch = used[begin:begin + samples]
            assert len(set(epoch)) == len(epoch), f"a sample came twice in epoch {begin // samples + 1}"
        assert set(used[:samples]) == set(range(samples)) or len(used) < samples, "a sample was lost in the first epoch"
