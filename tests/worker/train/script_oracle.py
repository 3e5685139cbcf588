"""Saves a network as TorchScript, trains the network itself by eager PyTorch, and writes the loss of each step.

Usage: script_oracle.py FOLDER. Writes net.pt and losses (a number a line). The batch is that of script_model_test.cpp.
"""
import sys

import torch

folder = sys.argv[1]
torch.set_num_threads(1)
torch.manual_seed(3)
network = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 26 * 26, 10))
torch.jit.script(network).save(f"{folder}/net.pt")
inputs = torch.linspace(0, 1, 8 * 784).reshape(8, 1, 28, 28)
targets = torch.arange(8) % 10
optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
with open(f"{folder}/losses", "w", encoding="utf-8") as losses:
    for _ in range(6):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(network(inputs), targets)
        losses.write(f"{loss.item():.9f}\n")
        loss.backward()
        optimizer.step()
