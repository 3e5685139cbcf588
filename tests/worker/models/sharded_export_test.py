#!/usr/bin/env python3
"""What `trainyard checkpoints export` gathers from a run whose ranks have held the optimizer's state, or the parameters too, in parts: the weights that
ddp trains. Usage: sharded_export_test.py BUILD_FOLDER"""

import array
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TRAINYARD = pathlib.Path(sys.argv.pop(1)) / "bin/trainyard"
STRATEGIES = {"ddp": {"name": "ddp"}, "sharded": {"name": "sharded"}, "parameters": {"name": "sharded", "shardParameters": True}}


def run(*arguments: object, **options: object) -> str:
    done = subprocess.run([TRAINYARD, *arguments], capture_output=True, text=True, check=False, timeout=120,
                          env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def tensors_of(file: pathlib.Path) -> dict[str, tuple[list[int], array.array]]:
    """The float32 tensors of a safetensors file by name, with their shapes."""
    content = file.read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:begin])
    return {name: (entry["shape"], array.array("f", content[begin + entry["data_offsets"][0]:begin + entry["data_offsets"][1]]))
            for name, entry in header.items() if name != "__metadata__" and entry["dtype"] == "F32"}


class ShardedExport(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def exported(self, name: str, ranks: int) -> dict[str, tuple[list[int], array.array]]:
        """The weights that `ranks` ranks have trained with that strategy, from the export of their last checkpoint."""
        place = f"file://{self.folder}/{name}-{ranks}"
        volume = {"volumes": [{"name": "checkpoints", "hostPath": {"path": str(self.folder)}}],
                  "containers": [{"name": "worker", "volumeMounts": [{"name": "checkpoints", "mountPath": str(self.folder)}]}]}
        job = {"apiVersion": "trainyard.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": f"{name}-{ranks}"},
               "spec": {"replicas": ranks, "gpusPerPod": 0, "checkpoint": {"uri": place}, "template": {"spec": volume},
                        "training": {"model": {"name": "fashion_cnn"}, "data": {"format": "synthetic", "samples": 480}, "maxSteps": 6, "batchSize": 8,
                                     "validateEvery": {"epochs": 1000}, "optimizer": {"name": "sgd", "lr": 0.01, "momentum": 0.9},
                                     "strategy": STRATEGIES[name]}}}
        run("run", "-", "--dir", self.folder / "runs" / f"{name}-{ranks}", input=json.dumps(job))
        file = self.folder / f"{name}-{ranks}.safetensors"
        run("checkpoints", "export", place, file)
        return tensors_of(file)

    def test_is_what_ddp_trains(self):
        for ranks in 2, 3:  # Rows of most parameters cannot be divided evenly among three.
            by_ddp = self.exported("ddp", ranks)
            self.assertGreater(len(by_ddp), 14)
            for name in "sharded", "parameters":
                sharded = self.exported(name, ranks)
                self.assertEqual({tensor: shape for tensor, (shape, _) in sharded.items()}, {tensor: shape for tensor, (shape, _) in by_ddp.items()})
                for tensor, (_, values) in by_ddp.items():
                    farthest = max(abs(ours - theirs) for ours, theirs in zip(sharded[tensor][1], values, strict=True))
                    self.assertLess(farthest, 1e-5, f"{tensor} of {name} on {ranks} ranks")


if __name__ == "__main__":
    unittest.main()
