"""FashionCNN or a small MLP on FashionMNIST, or any of the peer models on random data, by PyTorch's DistributedDataParallel or by Horovod: the
peers of trainyard-rank in accuracy and speed.

One process a rank, with torch.distributed's environment or that of horovodrun. By default as quick as Python is known to be: data in memory,
gathered by index_select, fused Adam, gradients as bucket views. With --as-users-do it is what most programs are: a DataLoader over single samples,
and Adam as torch.optim gives it. Prints "first step" after the first step, and on rank 0 one JSON line at the end: {"accuracy",
"samples_per_second", "losses"}.
"""
import argparse
import json
import os
import time

import torch
import torch.distributed as dist
import torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook as power_sgd
from peer_models import MODELS, SampleDataset, read_part, synthetic
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler


def batches_in_memory(options, parts, epoch):
    images, labels = parts
    sampler = DistributedSampler(range(len(labels)), *options.place, seed=options.seed)
    sampler.set_epoch(epoch)
    for ids in torch.tensor(list(sampler)).split(options.batch_size):
        ids = ids.to(images.device)
        inputs = images.index_select(0, ids)
        yield inputs.float().div_(255) if inputs.dtype == torch.uint8 else inputs, labels.index_select(0, ids)


def batches_of_loader(options, parts, epoch):
    dataset = SampleDataset(*parts)
    sampler = DistributedSampler(dataset, *options.place, seed=options.seed)
    sampler.set_epoch(epoch)
    for images, labels in DataLoader(dataset, batch_size=options.batch_size, sampler=sampler):
        yield images.to(options.device), labels.to(options.device)


class Ddp:
    """PyTorch's DistributedDataParallel."""

    def __init__(self, device):
        dist.init_process_group("nccl" if device == "cuda" else "gloo")
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()

    def wrap(self, model, options):
        # A given size makes one bucket of a small model. With two, Gloo aborted the ranks: what powerSGD_hook received had another size than expected.
        size = {"bucket_cap_mb": 25} if options.power_sgd else {}
        ddp = DistributedDataParallel(model, gradient_as_bucket_view=not options.as_users_do, **size)
        if options.power_sgd:
            rank, start_step = options.power_sgd
            state = power_sgd.PowerSGDState(None, matrix_approximation_rank=rank, start_powerSGD_iter=start_step)
            ddp.register_comm_hook(state, power_sgd.powerSGD_hook)
        return ddp

    def wrap_optimizer(self, optimizer, model, options):
        return optimizer

    def mean(self, number):
        dist.all_reduce(number)
        return number.item() / self.world_size

    def end(self):
        dist.barrier()


class Horovod:
    """Horovod's DistributedOptimizer, which exchanges the gradients as they come."""

    def __init__(self, device):
        import horovod.torch as hvd
        self.hvd = hvd
        hvd.init()
        self.rank, self.world_size = hvd.rank(), hvd.size()

    def wrap(self, model, options):
        self.hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        return model

    def wrap_optimizer(self, optimizer, model, options):
        compression = self.hvd.Compression.fp16 if options.horovod == "fp16" else self.hvd.Compression.none
        return self.hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), compression=compression)

    def mean(self, number):
        return self.hvd.allreduce(number).item()

    def end(self):
        self.hvd.barrier()
        self.hvd.shutdown()


def main():
    parser = argparse.ArgumentParser()
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--data")
    source.add_argument("--synthetic", type=int, metavar="SAMPLES", help="random data, for speed alone: needs --max-steps")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: the first visible GPU holds model and data")
    parser.add_argument("--model", choices=sorted(MODELS), default="fashion_cnn")
    parser.add_argument("--as-users-do", action="store_true", help="a DataLoader and torch.optim's Adam as it comes")
    parser.add_argument("--weights", help="a state_dict to begin with, in place of the seed's")
    parser.add_argument("--batch-size", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--max-steps", type=int, default=0, help="0: whole epochs, and a test at the end")
    parser.add_argument("--warm-up-steps", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sequence-length", type=int, default=1024, help="of gpt2's random tokens")
    parser.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model")
    parser.add_argument("--horovod", choices=("fp32", "fp16"), help="exchange gradients by Horovod, whole or as fp16")
    parser.add_argument("--power-sgd", type=int, nargs=2, metavar=("RANK", "START_STEP"), help="exchange gradients by PyTorch's powerSGD_hook")
    parser.add_argument("--losses", action="store_true", help="report each step's mean loss over the ranks")
    options = parser.parse_args()
    if options.synthetic is not None and not options.max_steps:
        parser.error("--synthetic needs --max-steps")
    if options.max_steps and options.max_steps <= options.warm_up_steps:
        parser.error("--max-steps must be more than --warm-up-steps")
    if options.device == "cuda" and not options.max_steps:
        parser.error("--device cuda needs --max-steps: the test at the end runs on the CPU")
    if options.as_users_do and options.model == "gpt2":
        parser.error("--as-users-do is for images")

    torch.set_num_threads(1)
    group = Horovod(options.device) if options.horovod else Ddp(options.device)
    rank, world_size = group.rank, group.world_size
    options.place = (world_size, rank)
    parts = synthetic(options.model, options.synthetic, options.sequence_length) if options.synthetic else read_part(options.data, "train")
    if not options.as_users_do:
        parts = [part.to(options.device) for part in parts]
    torch.manual_seed(options.seed)
    model = MODELS[options.model]().to(options.device)
    if options.weights:
        model.load_state_dict(torch.load(options.weights))
    if options.channels_last:
        model = model.to(memory_format=torch.channels_last)
        torch.backends.cudnn.benchmark = True
    forward = torch.compile(model) if options.compile else model
    ddp = group.wrap(forward, options)
    optimizer = torch.optim.Adam(ddp.parameters(), lr=1e-3, fused=None if options.as_users_do else True)
    optimizer = group.wrap_optimizer(optimizer, model, options)
    torch.manual_seed(options.seed + 1 + rank)
    batches = batches_of_loader if options.as_users_do else batches_in_memory
    steps, losses, began = 0, [], time.perf_counter()
    for epoch in range(options.epochs):
        for inputs, labels in batches(options, parts, epoch):
            optimizer.zero_grad()
            if options.channels_last:
                inputs = inputs.contiguous(memory_format=torch.channels_last)
            with torch.autocast(options.device, torch.bfloat16, enabled=options.bf16):
                loss = nn.functional.cross_entropy(ddp(inputs), labels.flatten())
            loss.backward()
            optimizer.step()
            steps += 1
            if options.losses:
                losses.append(group.mean(loss.detach().double()))
            if steps == 1:
                print("first step", flush=True)
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
    if options.losses:
        result["losses"] = losses
    if not options.max_steps and rank == 0:
        images, labels = read_part(options.data, "t10k")
        model.eval()
        with torch.no_grad():
            batches = zip(images.split(500), labels.split(500))
            correct = sum(int((model(x.float().div_(255)).argmax(1) == y).sum()) for x, y in batches)
        result["accuracy"] = correct / len(labels)
    if rank == 0:
        print(json.dumps(result), flush=True)
    group.end()
    os._exit(0)


if __name__ == "__main__":
    main()
