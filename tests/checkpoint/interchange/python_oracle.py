"""Reads exported files as a user of Python does. Usage: python_oracle.py {[--huge] {FILE EXPECTED.json}... | --module FILE...}"""

import json
import sys
import zipfile

import safetensors.torch
import torch


def load(path: str, mmap: bool) -> dict:
    if path.endswith(".safetensors"):
        return safetensors.torch.load_file(path)
    return torch.load(path, weights_only=True, mmap=mmap)


def bytes_of(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def check_equal(tensors: dict, expected: list) -> None:
    for entry in expected:
        tensor = tensors[entry["name"]]
        assert tensor.dtype == getattr(torch, entry["dtype"]), (entry["name"], tensor.dtype)
        assert list(tensor.shape) == entry["shape"], (entry["name"], tensor.shape)
        assert tensor.is_contiguous() and not tensor.requires_grad, entry["name"]
        with open(entry["bytes"], "rb") as file:
            assert bytes_of(tensor) == file.read(), entry["name"]


def check_archive(path: str) -> None:
    """Checks every checksum with a second reader, and every storage that can be mapped."""
    with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
        assert archive.testzip() is None
        for info in archive.infolist():
            assert info.compress_type == zipfile.ZIP_STORED
            file.seek(info.header_offset + 26)
            lengths = file.read(4)
            begin = info.header_offset + 30 + int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
            assert begin % 64 == 0, info.filename


def check_module(path: str) -> None:
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 2), torch.nn.BatchNorm2d(4))
    state = load(path, mmap=True)
    module.load_state_dict(state, strict=True)
    for name, tensor in module.state_dict().items():
        assert bytes_of(tensor) == bytes_of(state[name]), name


def check_huge(path: str, expected: list) -> None:
    """Checks a tensor of more than 4 GiB, and the expected tensor behind it."""
    tensors = load(path, mmap=True)
    check_equal(tensors, expected)
    assert list(tensors["huge"].shape) == [(4096 + 64) << 18, 4] and int(tensors["huge"][-1].sum()) == 0
    if path.endswith(".pt"):
        assert zipfile.ZipFile(path).read("archive/version") == b"3\n"


def check_file(path: str, expected: list) -> None:
    for mmap in (True, False):
        tensors = load(path, mmap)
        assert type(tensors) is dict and len(tensors) == len(expected), (len(tensors), len(expected))
        check_equal(tensors, expected)
    if path.endswith(".pt"):
        check_archive(path)


def main(arguments: list) -> None:
    if arguments[0] == "--module":
        for path in arguments[1:]:
            check_module(path)
        return
    check = check_huge if arguments[0] == "--huge" else check_file
    files = [argument for argument in arguments if argument != "--huge"]
    for path, expected_path in zip(files[::2], files[1::2]):
        with open(expected_path) as file:
            check(path, json.load(file))


if __name__ == "__main__":
    main(sys.argv[1:])
