"""How long a checkpoint of 1.3 GB holds training up, while the GPU has memory free for a copy of the state and while it has none."""

from __future__ import annotations

import array
import pathlib
import shutil
import statistics
import subprocess
import tempfile

from machine import CannotRun, Group, Machine

# GPT-2 of ten layers: 110,264,064 parameters and Adam's two moments of each, in float32.
TRAINING = {"model": {"name": "gpt2", "options": {"layers": 10, "dropout": 0}}, "batchSize": 8, "validateEvery": {"epochs": 100_000},
            "log": {"every": {"steps": 10}}}
SEQUENCE_LENGTH = 256
SAVE_EVERY_STEPS = 100
SAVES = 8
STORED_BYTES_MAX = 8_000_000_000  # Three checkpoints that are kept, and the one that is being written.
STEPS_BEFORE_THE_MEMORY_IS_TAKEN = 20
STAGING = {True: "deviceCopy", False: "pinnedBuffers"}  # by whether there is memory free

# Takes all of the GPU's memory but less than a save leaves free, and holds it until its input ends.
TAKE_MEMORY = """
import sys, torch
free, _ = torch.cuda.mem_get_info()
held = torch.empty(max(free - 256_000_000, 0), dtype=torch.uint8, device="cuda")
print("taken", flush=True)
sys.stdin.read()
"""


def write_tokens(folder: pathlib.Path) -> None:
    tokens = array.array("H", (7 * place % 5003 for place in range(400 * SEQUENCE_LENGTH + 1)))
    for name in ("train.bin", "val.bin"):
        (folder / name).write_bytes(tokens.tobytes())


def stalls_of(lines: list[dict], is_memory_free: bool) -> list[float]:
    """Milliseconds of each save but the first, which also allocates, and the last, which training waits for to its end."""
    saved = [line for line in lines if line["message"] == "checkpoint saved"][1:-1]
    expected = STAGING[is_memory_free]
    stalls = [1000 * line["stallSeconds"] for line in saved if line["staging"] == expected]
    if not stalls:
        found = sorted({line["staging"] for line in saved}) or "none"
        raise CannotRun(f"no checkpoint was staged by {expected} (staged by: {found}): does another program use the GPU, or is the disk too slow for "
                        f"a checkpoint every {SAVE_EVERY_STEPS} steps?")
    return stalls


def take_memory(machine: Machine) -> subprocess.Popen[str]:
    taker = subprocess.Popen([machine.python, "-c", TAKE_MEMORY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if taker.stdout.readline() != "taken\n":
        taker.kill()
        raise CannotRun("a program of torch could not take the GPU's free memory: look at its message above")
    return taker


def stalls(machine: Machine, is_memory_free: bool) -> list[float]:
    memory = pathlib.Path("/dev/shm")  # Faster than a disk, where it is not the 64 MB of a container's default.
    has_room = memory.exists() and shutil.disk_usage(memory).free > STORED_BYTES_MAX
    with tempfile.TemporaryDirectory(prefix="trainyard-stall-", dir=memory if has_room else None) as name:
        folder = pathlib.Path(name)
        write_tokens(folder)
        training = {**TRAINING, "maxSteps": SAVE_EVERY_STEPS * SAVES,
                    "data": {"format": "tokens", "path": name, "options": {"sequenceLength": SEQUENCE_LENGTH}}}
        variables = {0: {"OMP_NUM_THREADS": "4"}}  # As many as may empty a pinned buffer.
        with Group(machine, training, ranks=1, checkpoint=f"file://{folder}/checkpoints", save_every={"steps": SAVE_EVERY_STEPS},
                   variables=variables) as pods:
            taker = None
            try:
                if not is_memory_free:
                    pods[0].wait_for_step(STEPS_BEFORE_THE_MEMORY_IS_TAKEN)
                    taker = take_memory(machine)
                code = pods[0].wait()
            finally:
                if taker is not None:
                    taker.communicate()
            if code != 0:
                raise CannotRun(f"our rank ended with {code}:\n{pods[0].log.read_text()[-2000:]}")
            return stalls_of(pods[0].lines(), is_memory_free)


def run(machine: Machine) -> list[dict]:
    """The rows of the result."""
    print("stall of a 1.3 GB checkpoint, ms: median, least to most")
    rows = []
    for is_memory_free in (True, False):
        values = stalls(machine, is_memory_free)
        title = "memory free" if is_memory_free else "memory not free"
        rows.append({"figure": f"stall of a 1.3 GB checkpoint: {title}", "value": statistics.median(values), "unit": "ms", "rounds": values})
        print(f"  {title:16} {statistics.median(values):7.1f}  {min(values):.1f} to {max(values):.1f}", flush=True)
    return rows
