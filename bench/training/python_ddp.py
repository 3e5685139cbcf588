"""FashionCNN on FashionMNIST by PyTorch's DistributedDataParallel: the peer of trainyard-rank in accuracy and speed.

One process a rank, with torch.distributed's environment. As quick as Python is known to be: data in memory, gathered by index_select, fused Adam,
gradients as bucket views. Prints one JSON line on rank 0: {"accuracy", "samples_per_second"}.
"""
import argparse
import gzip
import json
import os
import struct
import time

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler


class FashionCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2))
        self.layer2 = nn.Sequential(nn.Conv2d(32, 64, 3), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2))
        self.fc1 = nn.Linear(64 * 6 * 6, 600)
        self.drop = nn.Dropout2d(0.25)
        self.fc2 = nn.Linear(600, 120)
        self.fc3 = nn.Linear(120, 10)

    def forward(self, images):
        features = self.layer2(self.layer1(images)).flatten(1)
        return self.fc3(self.fc2(self.drop(self.fc1(features))))


def read_idx(path):
    with gzip.open(path) as file:
        dimensions = struct.unpack(">HBB", file.read(4))[2]
        shape = struct.unpack(f">{dimensions}I", file.read(4 * dimensions))
        return torch.from_numpy(np.frombuffer(file.read(), np.uint8).reshape(shape).copy())


def read_part(folder, part):
    images = read_idx(f"{folder}/{part}-images-idx3-ubyte.gz").unsqueeze(1)
    return images, read_idx(f"{folder}/{part}-labels-idx1-ubyte.gz").long()


def synthetic(count):
    return torch.randint(0, 256, (count, 1, 28, 28), dtype=torch.uint8), torch.randint(0, 10, (count,))


def main():
    parser = argparse.ArgumentParser()
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--data")
    source.add_argument("--synthetic", type=int, metavar="SAMPLES", help="random data, for speed alone: needs --max-steps")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: the first visible GPU holds model and data")
    parser.add_argument("--batch-size", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--max-steps", type=int, default=0, help="0: whole epochs, and a test at the end")
    parser.add_argument("--warm-up-steps", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("nccl" if options.device == "cuda" else "gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    parts = synthetic(options.synthetic) if options.synthetic else read_part(options.data, "train")
    images, labels = (part.to(options.device) for part in parts)
    torch.manual_seed(options.seed)
    model = FashionCNN().to(options.device)
    ddp = DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.Adam(ddp.parameters(), lr=1e-3, fused=True)
    torch.manual_seed(options.seed + 1 + rank)
    sampler = DistributedSampler(range(len(labels)), seed=options.seed)
    steps, began = 0, time.perf_counter()
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        for ids in torch.tensor(list(sampler)).split(options.batch_size):
            ids = ids.to(options.device)
            inputs = images.index_select(0, ids).float().div_(255)
            optimizer.zero_grad()
            nn.functional.cross_entropy(ddp(inputs), labels.index_select(0, ids)).backward()
            optimizer.step()
            steps += 1
            if steps == options.warm_up_steps:
                if options.device == "cuda":
                    torch.cuda.synchronize()
                began = time.perf_counter()
            if steps == options.max_steps:
                break
        if steps == options.max_steps:
            break
    if options.device == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    result = {"samples_per_second": (steps - options.warm_up_steps) * options.batch_size * world_size / seconds}
    if not options.max_steps and rank == 0:
        images, labels = read_part(options.data, "t10k")
        model.eval()
        with torch.no_grad():
            batches = zip(images.split(500), labels.split(500))
            correct = sum(int((model(x.float().div_(255)).argmax(1) == y).sum()) for x, y in batches)
        result["accuracy"] = correct / len(labels)
    if rank == 0:
        print(json.dumps(result), flush=True)
    dist.barrier()
    os._exit(0)


if __name__ == "__main__":
    main()
