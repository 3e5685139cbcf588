"""Fits a line to the lines of a file, as stream_model.cpp does: PyTorch's DataLoader over an IterableDataset on each rank, and DistributedDataParallel.

Usage: stream_oracle.py FILE WORLD_SIZE BATCH_SIZE EPOCHS LR JOINS. Prints slope and offset before each step of rank 0. JOINS is 1: the ranks join, each
epoch anew.
"""
import socket
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset


class Lines(IterableDataset):
    def __init__(self, file, rank, world_size):
        self.file, self.rank, self.world_size = file, rank, world_size

    def __iter__(self):
        with open(self.file) as lines:
            for number, line in enumerate(lines):
                if number % self.world_size == self.rank:
                    yield torch.tensor([float(word) for word in line.split()])


class LineFit(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.slope = torch.nn.Parameter(torch.zeros(1))
        self.offset = torch.nn.Parameter(torch.zeros(1))

    def forward(self, inputs):
        return inputs * self.slope + self.offset


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(rank, file, world_size, batch_size, epochs, lr, joins, port):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world_size)
    model = LineFit()
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=lr)
    for _ in range(epochs):
        with ddp.join(enable=joins):
            for lines in DataLoader(Lines(file, rank, world_size), batch_size=batch_size):
                if rank == 0:
                    print(model.slope.item(), model.offset.item(), flush=True)
                optimizer.zero_grad()
                torch.nn.functional.mse_loss(ddp(lines[:, :1]), lines[:, 1:]).backward()
                optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    file, world_size, batch_size, epochs, lr, joins = sys.argv[1:]
    arguments = (file, int(world_size), int(batch_size), int(epochs), float(lr), joins == "1", free_port())
    # Forked, so that torch is loaded once.
    mp.start_processes(run, arguments, nprocs=int(world_size), start_method="fork")
