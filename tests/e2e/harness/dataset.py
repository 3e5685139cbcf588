"""A short set of real images: the first images of Debian's FashionMNIST, on a volume claim that pods can mount."""

import gzip
import struct
import subprocess
from pathlib import Path

from harness.kubernetes import Kubernetes

PACKAGE = "dataset-fashion-mnist"
IMAGES = {"train": 1024, "t10k": 256}


def write_short_set(folder: Path) -> None:
    folder.mkdir(parents=True)
    listing = subprocess.run(["dpkg", "-L", PACKAGE], check=True, capture_output=True, text=True).stdout.splitlines()
    for part, count in IMAGES.items():
        for name, header_bytes, item_bytes in ((f"{part}-images-idx3-ubyte", 16, 28 * 28), (f"{part}-labels-idx1-ubyte", 8, 1)):
            source = next(Path(line) for line in listing if line.endswith((name, name + ".gz")))
            with gzip.open(source) if source.suffix == ".gz" else open(source, "rb") as file:
                data = bytearray(file.read(header_bytes + count * item_bytes))
            data[4:8] = struct.pack(">I", count)
            (folder / name).write_bytes(data)
    # Pods run as another user than the tests.
    subprocess.run(["chmod", "-R", "a+rX", folder], check=True)


def apply_claim(kube: Kubernetes, name: str, folder: Path) -> None:
    """A volume claim in the namespace, whose volume is a folder of the node."""
    volume = f"{kube.namespace}-{name}"
    access = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    kube.apply(
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume},
         "spec": {**access, "capacity": {"storage": "1Gi"}, "hostPath": {"path": str(folder)},
                  "claimRef": {"namespace": kube.namespace, "name": name}}},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
         "spec": {**access, "resources": {"requests": {"storage": "1Gi"}}, "volumeName": volume}})
