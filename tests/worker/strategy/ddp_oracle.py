"""Trains the tiny model of tiny_model.hpp by PyTorch's own DistributedDataParallel, from given weights on given batches.

Usage: ddp_oracle.py FOLDER WORLD_SIZE STEPS LR [WAY]. WAY is a communication hook: fp16, bf16 or powersgd; or "join": each rank has 3 batches fewer
than the one before, and joins the others once it has no more; or "unused": in every third step of a rank, and in step 5 of all, the loss does not use
the first layers' parameters, and find_unused_parameters is set. FOLDER holds state.bin (float32: parameters, then buffers), images.bin (float32, by
step, then rank) and labels.bin (int64). Writes result.bin: the state after each step, each in the form of state.bin.
"""
import os
import socket
import sys

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.algorithms.ddp_comm_hooks.default_hooks as rounded
import torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook as power_sgd
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel


class TinyModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 4, 3)
        self.norm = torch.nn.BatchNorm2d(4)
        self.hidden = torch.nn.Linear(4 * 6 * 6, 16)
        self.out = torch.nn.Linear(16, 10)

    def forward(self, images, trains_head_only=False):
        features = torch.relu(self.norm(self.conv(images))).flatten(1)
        return self.out(torch.relu(self.hidden(features.detach() if trains_head_only else features)))


def load(model, values):
    values = torch.from_numpy(values)
    with torch.no_grad():
        for tensor in [*model.parameters(), *model.buffers()]:
            tensor.copy_(values[: tensor.numel()].view(tensor.shape))
            values = values[tensor.numel() :]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class FixedSeed:
    """In place of the generator that seeds PowerSGD's first factors."""

    def randint(self, _):
        return 0


def add_hook(ddp, name):
    if name == "powersgd":
        state = power_sgd.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2)
        state.rng = FixedSeed()
        ddp.register_comm_hook(state, power_sgd.powerSGD_hook)
    elif name in ("fp16", "bf16"):
        ddp.register_comm_hook(None, {"fp16": rounded.fp16_compress_hook, "bf16": rounded.bf16_compress_hook}[name])


def run(rank, folder, world_size, steps, lr, way, port):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world_size)
    model = TinyModel()
    if rank == 0:  # The others get rank 0's from DDP.
        load(model, np.fromfile(os.path.join(folder, "state.bin"), np.float32))
    # The hooks get one bucket, so that the order of its matrices is known.
    ddp = DistributedDataParallel(model, bucket_cap_mb=25 if way else 0.001, gradient_as_bucket_view=True,
                                  find_unused_parameters=way == "unused")
    add_hook(ddp, way)
    images = torch.from_numpy(np.fromfile(os.path.join(folder, "images.bin"), np.float32)).view(steps, world_size, 8, 1, 8, 8)
    labels = torch.from_numpy(np.fromfile(os.path.join(folder, "labels.bin"), np.int64)).view(steps, world_size, 8)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=lr)
    states = []
    with ddp.join(enable=way == "join"):
        for step in range(steps - 3 * rank if way == "join" else steps):
            optimizer.zero_grad()
            trains_head_only = way == "unused" and ((step + rank) % 3 == 0 or step == 5)
            torch.nn.functional.cross_entropy(ddp(images[step, rank], trains_head_only), labels[step, rank]).backward()
            optimizer.step()
            states += [t.detach().float().flatten().clone() for t in [*model.parameters(), *model.buffers()]]
    if rank == 0:
        torch.cat(states).numpy().tofile(os.path.join(folder, "result.bin"))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    arguments = (sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), (sys.argv[5:] or [""])[0], free_port())
    # Forked, so that torch is loaded once.
    mp.start_processes(run, arguments, nprocs=int(sys.argv[2]), start_method="fork")
