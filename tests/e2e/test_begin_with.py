"""Jobs that begin with another job's checkpoint, or only with the weights of its best one."""

import json

from harness.jobs import Job, a_job, synthetic_training
from harness.program import PROGRAM
from harness.s3 import ACCESS_KEY, REGION, SECRET_KEY

STEPS = 32


def checkpoints(cluster, s3, *arguments: object) -> str:
    """The output of `trainyard checkpoints` on the node, where the store is."""
    return cluster.run_inside("env", f"AWS_ACCESS_KEY_ID={ACCESS_KEY}", f"AWS_SECRET_ACCESS_KEY={SECRET_KEY}", PROGRAM, "checkpoints", *arguments,
                              "--endpoint", s3.endpoint, "--region", REGION, "--path-style")


def log_lines(kube, job: Job, message: str) -> list[dict]:
    """The lines of rank 0's log with this message."""
    lines = [json.loads(line) for line in kube.logs(job.pod_name(1, 0)).splitlines() if line.startswith("{")]
    return [line for line in lines if line["message"] == message]


def test_others_begin_with_a_jobs_checkpoint_or_with_the_weights_of_its_best(kube, cluster, s3, tmp_path):
    # The worst checkpoint is chosen as the best, so that it is much older than the last ones that are kept.
    teacher = Job.apply(kube, a_job(
        "teacher", training=synthetic_training(max_steps=STEPS, validateEvery={"steps": 4}),
        checkpoint=s3.checkpoint("teacher", every={"best": True, "steps": 4}, whenBusy="wait", keep={"last": 2, "best": {"metric": "val_loss", "mode": "max"}})))
    teacher.wait_for_phase("Succeeded")
    losses = {line["step"]: line["metrics"]["val_loss"] for line in log_lines(kube, teacher, "validated")}
    assert len(losses) == STEPS // 4
    best = max(losses, key=losses.get)
    assert best < STEPS - 4, losses
    listed = json.loads(checkpoints(cluster, s3, "ls", "s3://models/teacher", "--output", "json"))
    assert {entry["step"] for entry in listed} == {best, STEPS - 4, STEPS}, losses

    # The path of weights that another program has written.
    weights = tmp_path / "weights.pt"
    exported = checkpoints(cluster, s3, "export", f"s3://models/teacher/step-{best}/g-1", weights)
    assert exported.startswith(f"step {best}: {weights}"), exported
    imported = checkpoints(cluster, s3, "import", weights, "s3://models/imported")
    assert imported.endswith("to begin a training with them, set training.model.weights: s3://models/imported\n"), imported

    training = synthetic_training(max_steps=STEPS + 8)
    training["model"]["weights"] = "s3://models/imported"
    student = Job.apply(kube, a_job("student", training=training, checkpoint=s3.checkpoint("student")))
    heir = Job.apply(kube, a_job("heir", training=synthetic_training(max_steps=STEPS + 8),
                                 checkpoint=s3.checkpoint("heir", resume="s3://models/teacher")))
    for job in (student, heir):
        assert job.wait_for_phase("Succeeded")["attempt"] == 1
        assert f"{job.name}/step-{STEPS + 8}/g-1/manifest.json" in s3.keys(job.name)
    assert [line["uri"] for line in log_lines(kube, student, "weights loaded")] == ["s3://models/imported/step-0/g-1"]
    assert not log_lines(kube, student, "resumed from a checkpoint")
    resumed = log_lines(kube, heir, "resumed from a checkpoint")
    assert [(line["step"], line["uri"]) for line in resumed] == [(STEPS, f"s3://models/teacher/step-{STEPS}/g-1")]
