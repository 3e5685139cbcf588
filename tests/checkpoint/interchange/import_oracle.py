"""Writes files of weights as a user of Python does. Usage: import_oracle.py FOLDER

Each FOLDER/NAME.json lists what must be found in FOLDER/NAME: name, dtype, shape, and a file with the bytes."""

import collections
import json
import pathlib
import sys
import zipfile

import safetensors.torch
import torch

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e5m2, torch.float8_e4m3fn, torch.int64, torch.int32,
          torch.int16, torch.int8, torch.uint64, torch.uint32, torch.uint16, torch.uint8, torch.bool, torch.complex64, torch.complex32,
          torch.complex128]
NOT_IN_SAFETENSORS = (torch.complex32, torch.complex128)


def bytes_of(tensor: torch.Tensor) -> bytes:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def make(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    size = torch.empty((), dtype=dtype).element_size()
    count = torch.Size(shape).numel() * size
    raw = torch.randint(0, 2 if dtype == torch.bool else 256, (count,), dtype=torch.uint8)
    return raw.view(dtype).reshape(shape)


def every_dtype(dtypes: list) -> dict:
    tensors = {}
    for dtype in dtypes:
        name = str(dtype).removeprefix("torch.")
        tensors[f"matrix.{name}"] = make(dtype, 3, 5)
        tensors[f"scalar.{name}"] = make(dtype, 1)[0]
        tensors[f"empty.{name}"] = make(dtype, 2, 0, 3)
        tensors[f'ünï "quoted"\\.{name}'] = make(dtype, 1, 2, 1, 3)
    return tensors


def expect(folder: pathlib.Path, file: str, tensors: dict) -> None:
    listed = []
    for name, tensor in tensors.items():
        path = folder / f"{file}.bytes-{len(listed)}"
        path.write_bytes(bytes_of(tensor))
        listed.append({"name": name, "dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape), "bytes": str(path)})
    (folder / f"{file}.json").write_text(json.dumps(listed))


def views() -> dict:
    base = make(torch.float32, 6, 4)
    wide = make(torch.float8_e4m3fn, 4, 6)
    return {"base": base, "transposed": base.t(), "row": base[3], "column": base[:, 1], "part": base[1:5:2, 1:3], "tied": base,
            "expanded": base[:1].expand(3, 4), "flipped_back": wide.t(), "last": base[5, 3], "parameter": torch.nn.Parameter(base.t())}


def module() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 2), torch.nn.BatchNorm2d(4), torch.nn.Linear(5, 2, dtype=torch.bfloat16))


def repacked(source: pathlib.Path, target: pathlib.Path) -> None:
    """Writes the archive again, deflated."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            new.writestr(info.filename, old.read(info))


def write_good(folder: pathlib.Path) -> None:
    def save(name: str, value: object, tensors: dict, **options: object) -> None:
        torch.save(value, folder / name, **options)
        expect(folder, name, tensors)

    tensors = every_dtype(DTYPES)
    save("dtypes.pt", tensors, tensors)
    for protocol in (2, 3, 4, 5):
        save(f"protocol-{protocol}.pth", tensors, tensors, pickle_protocol=protocol)
    repacked(folder / "dtypes.pt", folder / "deflated.pt")
    expect(folder, "deflated.pt", tensors)
    kept = views()
    save("views.bin", kept, kept)
    state = module().state_dict()
    save("module.pt", state, state)
    parameters = dict(module().named_parameters())
    save("parameters.pt", parameters, parameters)
    nested = {"generator": collections.OrderedDict(state), "critic": {"deep": {"weight": make(torch.int16, 7)}}}
    save("nested.pt", nested, {f"generator.{name}": tensor for name, tensor in state.items()}
         | {"critic.deep.weight": nested["critic"]["deep"]["weight"]})
    kept = every_dtype([dtype for dtype in DTYPES if dtype not in NOT_IN_SAFETENSORS])
    safetensors.torch.save_file(kept, folder / "dtypes.safetensors", metadata={"format": "pt"})
    expect(folder, "dtypes.safetensors", kept)


def write_wrong(folder: pathlib.Path) -> None:
    tensor = make(torch.float32, 2, 3)
    torch.save(module(), folder / "a-module.pt")
    torch.save({"state": {"w": tensor}, "epoch": 3}, folder / "an-epoch.pt")
    torch.save(torch.optim.Adam(module().parameters()).state_dict(), folder / "an-optimizer.pt")
    torch.save({"w": tensor}, folder / "an-old.pt", _use_new_zipfile_serialization=False)
    torch.save({"w": tensor.to_sparse()}, folder / "a-sparse.pt")
    torch.save({"w": torch.view_as_complex(make(torch.float32, 3, 2)).conj()}, folder / "a-conjugate.pt")
    torch.jit.script(torch.nn.Linear(2, 3)).save(str(folder / "a-script.pt"))
    (folder / "some-words.pt").write_text("no archive at all")


if __name__ == "__main__":
    torch.manual_seed(7)
    write_good(pathlib.Path(sys.argv[1]))
    write_wrong(pathlib.Path(sys.argv[1]))
