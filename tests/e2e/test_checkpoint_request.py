"""Checkpoints on request: from the CLI or an annotation to the store, and before a job is suspended."""

import json
import re

from harness.jobs import Job, a_job, an_actor_job, synthetic_training
from harness.program import trainyard

ANNOTATION = "trainyard.dev/checkpoint-request"


def a_long_job(kube, s3, name: str) -> Job:
    """A job that trains as long as a test lasts, and saves checkpoints only on request."""
    job = Job.apply(kube, a_job(name, training=synthetic_training(max_steps=100_000), checkpoint=s3.checkpoint(name, every={"steps": 1_000_000})))
    job.wait_for("training", lambda s: s.get("progress", {}).get("step", 0) > 0)
    return job


def test_a_checkpoint_is_saved_on_request_and_training_continues(kube, s3):
    job = a_long_job(kube, s3, "asked")
    asked = trainyard(kube, "checkpoint", "asked", "--timeout", "2m", within=180)
    assert asked.returncode == 0, asked.stderr
    said = re.fullmatch(r"step (\d+) saved: s3://models/asked/step-\1/g-1\n", asked.stdout)
    assert said, asked.stdout
    assert f"asked/step-{said[1]}/g-1/manifest.json" in s3.keys("asked")
    job.wait_for("training goes on", lambda s: s["progress"]["step"] > int(said[1]))
    kube.kubectl("annotate", "tj", "asked", f"{ANNOTATION}=lunch", "--overwrite")
    status = job.wait_for("the answer", lambda s: s["checkpoint"]["request"]["id"] == "lunch" and s["checkpoint"]["request"]["state"] == "Done")
    assert status["checkpoint"]["request"]["step"] > int(said[1])
    assert (status["attempt"], status["restartCount"]) == (1, 0)


def test_a_request_that_cannot_be_met_is_refused_with_a_reason(kube):
    Job.apply(kube, an_actor_job("own", "wait")).wait_for_phase("Running")
    refused = trainyard(kube, "checkpoint", "own", "--timeout", "1m")
    assert (refused.returncode, refused.stderr) == (1, "error: no checkpoint was made: a container of your own does not take checkpoint requests\n")
    unknown = trainyard(kube, "checkpoint", "nobody")
    assert (unknown.returncode, unknown.stderr) == (1, f"error: there is no TrainingJob nobody in the namespace {kube.namespace}\n")


def test_the_ranks_save_on_request_before_a_suspended_jobs_pods_are_deleted(kube, s3):
    job = a_long_job(kube, s3, "saving")
    kube.kubectl("patch", "tj", "saving", "--type=merge", "-p", json.dumps({"spec": {"suspend": True}}))
    status = job.wait_for_phase("Suspended")
    request = status["checkpoint"]["beforeSuspend"]
    assert (request["id"], request["state"]) == ("suspend-2", "Done"), request
    assert f"saving/step-{request['step']}/g-1/manifest.json" in s3.keys("saving")
    ended = [pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] for pod in job.pods(1)]
    assert ended == [91, 91], "they ended by themselves, and their logs stay"
    kube.kubectl("patch", "tj", "saving", "--type=merge", "-p", json.dumps({"spec": {"suspend": False}}))
    job.wait_for("it goes on from there", lambda s: s.get("attempt") == 2 and s.get("progress", {}).get("step", 0) > request["step"])
    assert job.status()["restarts"] == {"application": 0, "infrastructure": 0}
