"""What scripts/gpu test checks: each check is a sentence about ranks that train on the machine's GPU."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections.abc import Callable

from machine import Group, Machine, Pod

STEPS = 40


def end_of(pods: list[Pod], expected: list[int]) -> None:
    codes = [pod.wait() for pod in pods]
    logs = "\n".join(pod.log.read_text()[-2000:] for pod in pods)
    assert codes == expected, f"the pods ended with {codes}, not with {expected}:\n{logs}"


def checksum(pod: Pod) -> str:
    return next(line["parametersChecksum"] for line in reversed(pod.lines()) if "parametersChecksum" in line)


def one_rank_trains_on_the_device(machine: Machine) -> None:
    with Group(machine, {"maxSteps": STEPS}, ranks=1) as pods:
        end_of(pods, [0])
        devices = {line["device"] for line in pods[0].lines() if "device" in line}
        assert devices == {"cuda:0" if machine.gpu else "cpu"}, f"it trained on {devices}"


def two_ranks_resume_to_the_bit_after_sigterm(machine: Machine) -> None:
    with Group(machine, {"maxSteps": STEPS}) as pods:
        end_of(pods, [0, 0])
        expected = checksum(pods[0])
    with tempfile.TemporaryDirectory(prefix="trainyard-gpu-") as folder:
        uri = f"file://{folder}/checkpoints"
        with Group(machine, {"maxSteps": STEPS, "log": {"every": {"steps": 1}}}, checkpoint=uri) as pods:
            pods[0].wait_for_step(3)
            pods[1].process.send_signal(signal.SIGTERM)
            end_of(pods, [91, 91])
        with Group(machine, {"maxSteps": STEPS}, checkpoint=uri, attempt=2) as pods:
            end_of(pods, [0, 0])
            assert any(line["message"] == "resumed from a checkpoint" for line in pods[0].lines()), "it began anew"
            assert checksum(pods[0]) == expected, f"{checksum(pods[0])} is not the {expected} of a run that nobody stopped"


def a_killed_rank_ends_the_other_in_seconds(machine: Machine) -> None:
    with Group(machine, {"epochs": 100_000, "log": {"every": {"steps": 1}}}) as pods:
        pods[0].wait_for_step(2)
        killed = time.monotonic()
        os.kill(pods[1].rank_pid(), signal.SIGKILL)
        end_of(pods, [90, 137])
        seconds = time.monotonic() - killed
        said = pods[0].says()
        assert said.get("culprit") == 1, f"the survivor said {said}"
        assert seconds < 10, f"the survivor ended after {seconds:.1f} s"


def a_group_of_which_one_rank_sees_no_gpu_is_refused(machine: Machine) -> None:
    promised_nothing = {"TRAINYARD_GPUS_PER_POD": ""}
    variables = {0: promised_nothing, 1: {**promised_nothing, "CUDA_VISIBLE_DEVICES": "-1"}}
    with Group(machine, {"maxSteps": STEPS}, variables=variables) as pods:
        codes = [pod.wait() for pod in pods]
        assert 97 in codes and set(codes) <= {90, 97}, f"the pods ended with {codes}"
        messages = [pod.says()["message"] for pod in pods]
        assert any("rank 1 of 2 sees no GPU" in message for message in messages), f"they said {messages}"


def a_promised_gpu_that_the_template_hides_ends_with_93(machine: Machine) -> None:
    hidden = {0: {"TRAINYARD_GPUS_PER_POD": "1", "CUDA_VISIBLE_DEVICES": ""}}
    with Group(machine, {"maxSteps": STEPS}, ranks=1, variables=hidden) as pods:
        end_of(pods, [93])
        assert "CUDA_VISIBLE_DEVICES" in pods[0].says()["message"], pods[0].says()


def two_ranks_of_one_gpu_and_one_host_end_before_the_deadline(machine: Machine) -> None:
    """NCCL refuses them."""
    same_host = {rank: {"NCCL_HOSTID": "one"} for rank in range(2)}
    with Group(machine, {"maxSteps": STEPS}, variables=same_host) as pods:
        codes = [pod.wait() for pod in pods]
        assert 0 not in codes and 97 not in codes, f"the pods ended with {codes}"


ANYWHERE: list[Callable[[Machine], None]] = [
    one_rank_trains_on_the_device,
    two_ranks_resume_to_the_bit_after_sigterm,
    a_killed_rank_ends_the_other_in_seconds,
    a_promised_gpu_that_the_template_hides_ends_with_93,
]
ON_A_GPU: list[Callable[[Machine], None]] = [
    a_group_of_which_one_rank_sees_no_gpu_is_refused,
    two_ranks_of_one_gpu_and_one_host_end_before_the_deadline,
]


def warm_up(machine: Machine) -> None:
    with Group(machine, {"maxSteps": 1}, ranks=1) as pods:
        pods[0].wait()


def run(machine: Machine) -> int:
    print(f"on {machine.gpu or 'the CPU'}, torch of {machine.python}", flush=True)
    warm_up(machine)
    rows = []
    for check in ANYWHERE + (ON_A_GPU if machine.gpu else []):
        began = time.monotonic()
        problem = ""
        try:
            check(machine)
        except Exception as error:  # noqa: BLE001: one check's failure, of whatever kind, must not hide the others'.
            problem = f"{type(error).__name__}: {error}"
        rows.append({"check": check.__name__.replace("_", " "), "passed": not problem, "seconds": round(time.monotonic() - began, 1),
                     "problem": problem})
        print(f"{'failed' if problem else 'passed'}  {rows[-1]['seconds']:6.1f} s  {rows[-1]['check']}", flush=True)
        if problem:
            print(problem, flush=True)
    (machine.source / "build").mkdir(exist_ok=True)
    (machine.source / "build/gpu-test.json").write_text(json.dumps({"device": machine.gpu or "cpu", "rows": rows}, indent=1) + "\n")
    return 0 if all(row["passed"] for row in rows) else 1
