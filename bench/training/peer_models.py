"""The models and the data of the Python peers. The models are those of trainyard-rank and of bench/worker's program."""
import gzip
import struct

import numpy as np
import torch
from torch import nn


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


class SmallMlp(nn.Module):
    """Eight hidden layers of 32: so little arithmetic that the cost of starting each operation decides."""

    def __init__(self):
        super().__init__()
        widths = [28 * 28] + [32] * 8
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in zip(widths, widths[1:]))
        self.head = nn.Linear(32, 10)

    def forward(self, images):
        features = images.flatten(1)
        for layer in self.layers:
            features = torch.relu(layer(features))
        return self.head(features)


MODELS = {"fashion_cnn": FashionCNN, "small_mlp": SmallMlp}


class SampleDataset(torch.utils.data.Dataset):
    """One sample at a time, as torchvision's data sets give them; cheaper than theirs, which decode an image by way of PIL."""

    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index].float().div(255), int(self.labels[index])


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
