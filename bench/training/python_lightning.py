"""FashionCNN or a small MLP on FashionMNIST by Lightning's Trainer, as its users run it: a DataLoader, Adam, the ddp strategy.

One process a rank, with torchrun's environment. Prints "first step" after the first step, and on rank 0 one JSON line at the end:
{"samples_per_second"}.
"""
import argparse
import json
import logging
import os
import time
import warnings

import lightning
import torch
from peer_models import MODELS, SampleDataset, read_part
from torch import nn
from torch.utils.data import DataLoader


class Classifier(lightning.LightningModule):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def training_step(self, batch, batch_idx):
        images, labels = batch
        loss = nn.functional.cross_entropy(self.model(images), labels)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


class Meter(lightning.Callback):
    def __init__(self, warm_up_steps):
        self.warm_up_steps, self.began = warm_up_steps, 0.0

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.global_step == 1:
            print("first step", flush=True)
        if trainer.global_step == self.warm_up_steps:
            self.began = time.perf_counter()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--model", choices=sorted(MODELS), default="fashion_cnn")
    parser.add_argument("--batch-size", type=int, default=100)
    parser.add_argument("--max-steps", type=int, required=True)
    parser.add_argument("--warm-up-steps", type=int, default=10)
    options = parser.parse_args()

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    loader = DataLoader(SampleDataset(*read_part(options.data, "train")), batch_size=options.batch_size, shuffle=True)
    meter = Meter(options.warm_up_steps)
    world_size = int(os.environ["WORLD_SIZE"])
    trainer = lightning.Trainer(accelerator="cpu", devices=world_size, strategy="ddp" if world_size > 1 else "auto", max_steps=options.max_steps,
                                callbacks=[meter], logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Classifier(MODELS[options.model]()), loader)
    seconds = time.perf_counter() - meter.began
    if trainer.is_global_zero:
        samples = (options.max_steps - options.warm_up_steps) * options.batch_size * world_size
        print(json.dumps({"samples_per_second": samples / seconds}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
