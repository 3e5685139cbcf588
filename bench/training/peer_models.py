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


class Bottleneck(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        self.narrow = nn.Sequential(nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True))
        self.middle = nn.Sequential(nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True))
        self.wide = nn.Sequential(nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width))
        self.shortcut = nn.Identity()
        if stride != 1 or channels != 4 * width:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, features):
        return torch.relu_(self.wide(self.middle(self.narrow(features))) + self.shortcut(features))


class ResNet50(nn.Module):
    """Version 1.5: a bottleneck's stride is in its 3x3 convolution."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        blocks, channels = [], 64
        for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for index in range(count):
                blocks.append(Bottleneck(channels, width, stride if index == 0 else 1))
                channels = 4 * width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(channels, 1000)

    def forward(self, images):
        return self.head(self.blocks(self.stem(images)).mean((2, 3)))


class Gpt2Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))

    def forward(self, features):
        by_head = [part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in self.attention(self.norm_1(features)).chunk(3, 2)]
        attended = nn.functional.scaled_dot_product_attention(*by_head, is_causal=True)
        features = features + self.projection(attended.transpose(1, 2).flatten(2))
        return features + self.feed_forward(self.norm_2(features))


class Gpt2(nn.Module):
    """GPT-2 124M without dropout."""

    def __init__(self, layers=12, width=768, heads=12, vocabulary=50257, length=1024):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Gpt2Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens):
        features = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.norm(self.blocks(features))).flatten(0, 1)


MODELS = {"fashion_cnn": FashionCNN, "small_mlp": SmallMlp, "resnet50": ResNet50, "gpt2": Gpt2}


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


def synthetic(model, count, length):
    """Inputs and targets; `length`: of gpt2's sequences."""
    if model == "gpt2":
        tokens = torch.randint(0, 50257, (count, length + 1))
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    shape, classes = ((3, 224, 224), 1000) if model == "resnet50" else ((1, 28, 28), 10)
    return torch.randint(0, 256, (count, *shape), dtype=torch.uint8), torch.randint(0, classes, (count,))
