"""Checkpoints by Python's torch: torch.save, torch.load and torch.distributed.checkpoint, the peers of Trainyard's checkpointer.

The state and the samples are those of storage_bench.cpp. One process a rank, with torch.distributed's environment. Prints one JSON object.
"""
import argparse
import json
import os
import pathlib
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.staging import BlockingAsyncStager

WIDTH = 1024
LAYER_BYTES = 3 * (WIDTH * WIDTH + WIDTH) * 4


def make_state(megabytes):
    state = {}
    for layer in range(max(1, megabytes * 1_000_000 // LAYER_BYTES)):
        for kind in ("model", "optimizer.exp_avg", "optimizer.exp_avg_sq"):
            state[f"{kind}.{layer}.weight"] = torch.rand(WIDTH, WIDTH)
            state[f"{kind}.{layer}.bias"] = torch.rand(WIDTH)
    return state


def bytes_of(state):
    return sum(tensor.nbytes for tensor in state.values())


class TorchSave:
    """Saves on rank 0, as users of DistributedDataParallel do; blocks training until the file is durable."""

    def __init__(self, folder):
        self.folder = folder

    def begin(self, state, number):
        if dist.get_rank() == 0:
            path = self.folder / f"{number}.pt"
            torch.save(state, path)
            with open(path, "rb") as file:
                os.fsync(file.fileno())
        dist.barrier()

    def is_saving(self):
        return False

    def finish(self):
        pass


class KeptStager(BlockingAsyncStager):
    """Copies into the same memory each time. The parent class would cache pinned memory, which needs a GPU."""

    def stage(self, state_dict):
        if self.state_dict_cache is None:
            self.state_dict_cache = {name: torch.empty_like(tensor) for name, tensor in state_dict.items()}
        for name, tensor in state_dict.items():
            self.state_dict_cache[name].copy_(tensor)
        return self.state_dict_cache


class AsyncSave:
    """DCP's async_save. It allocates memory for each save, unless one stager is used for all of them."""

    def __init__(self, folder, keeps_stager):
        self.folder = folder
        self.future = None
        self.stager = KeptStager() if keeps_stager else None

    def begin(self, state, number):
        self.future = dcp.async_save(state, checkpoint_id=self.folder / str(number), async_stager=self.stager)

    def is_saving(self):
        return not self.future.done()

    def finish(self):
        self.future.result()


SAVERS = {"torch.save": TorchSave, "async": lambda folder: AsyncSave(folder, False), "async-kept": lambda folder: AsyncSave(folder, True)}


def save(options, state):
    saver = SAVERS[options.by](options.folder)
    samples = {"bytes": bytes_of(state), "stall_seconds": [], "seconds": []}
    for number in range(options.rounds + 1):
        dist.barrier()
        began = time.perf_counter()
        saver.begin(state, number)
        stall_seconds = time.perf_counter() - began
        saver.finish()
        if number == 0:
            samples["first_stall_seconds"] = stall_seconds
            continue
        samples["stall_seconds"].append(stall_seconds)
        samples["seconds"].append(time.perf_counter() - began)
    return samples


def loop(options, state):
    saver = SAVERS[options.by](options.folder)
    factor = torch.rand(1024, 1024)
    product = torch.empty_like(factor)

    def work(steps):
        began = time.perf_counter()
        for _ in range(steps):
            torch.mm(factor, factor, out=product)
        return time.perf_counter() - began

    work(20)
    steps = int(options.segment_seconds / (work(20) / 20)) + 1
    samples = {"bytes": bytes_of(state), "without_seconds": [], "with_seconds": [], "outlasted": 0}
    for number in range(options.rounds + 1):
        without_seconds = work(steps)
        began = time.perf_counter()
        saver.begin(state, number)
        work(steps)
        with_seconds = time.perf_counter() - began
        has_outlasted = saver.is_saving()
        saver.finish()
        if number == 0:
            continue
        samples["without_seconds"].append(without_seconds)
        samples["with_seconds"].append(with_seconds)
        samples["outlasted"] += has_outlasted
    return samples


def load(options):
    began = time.perf_counter()
    state = torch.load(options.folder / "0.pt", weights_only=True)
    return {"bytes": bytes_of(state), "seconds": time.perf_counter() - began}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=["save", "loop", "load"])
    parser.add_argument("--folder", required=True, type=pathlib.Path)
    parser.add_argument("--by", choices=SAVERS, default="torch.save")
    parser.add_argument("--size-mb", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--segment-seconds", type=float, default=5.0)
    options = parser.parse_args()

    dist.init_process_group("gloo")
    samples = load(options) if options.part == "load" else {"save": save, "loop": loop}[options.part](options, make_state(options.size_mb))
    print(json.dumps(samples), flush=True)
    dist.barrier()
    os._exit(0)


if __name__ == "__main__":
    main()
