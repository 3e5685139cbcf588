"""From start to end: a job trains with the built worker, loses a rank in several ways, and resumes from its last checkpoint."""

import json

import pytest
from harness.jobs import Job, a_job, a_template, synthetic_training, worker
from harness.samples import SampleRecord

SAMPLES = 2048
BATCH = 16
STEPS = 96  # One and a half epochs on two ranks.

# A worker that runs until the file /tmp/fail appears in its pod, then ends with exit code 1, in rank 1 of attempt 1.
FAILING_ONCE = """
if [ "$RANK$TRAINYARD_ATTEMPT" != 11 ]; then exec trainyard-worker; fi
trainyard-worker &
until [ -e /tmp/fail ]; do sleep 0.1; done
exit 1
"""


def lose_by_deletion(kube, job: Job) -> None:
    kube.kubectl("delete", "pod", job.pod_name(1, 1), "--wait=false")


def lose_by_sigkill(kube, job: Job) -> None:
    job.end_pod(1, 1, "sh", "-c", "kill -9 $(pidof trainyard-rank)")


def lose_by_exit_1(kube, job: Job) -> None:
    job.end_pod(1, 1, "touch", "/tmp/fail")


# how -> (action, cause, exit code). The rank of a deleted pod gets a SIGTERM, and all ranks save first.
LOSSES = {
    "deletion": (lose_by_deletion, "Deleted", 91),
    "sigkill": (lose_by_sigkill, "Application", 137),
    "exit-1": (lose_by_exit_1, "Application", 1),
}


@pytest.mark.parametrize("how", LOSSES)
def test_a_rank_lost_mid_epoch_costs_nothing_before_the_last_checkpoint(kube, cluster, s3, how):
    lose, cause, exit_code = LOSSES[how]
    record = SampleRecord(cluster, kube.namespace)
    container = record.container(command=["sh", "-c", FAILING_ONCE]) if how == "exit-1" else record.container()
    job = Job.apply(kube, a_job(
        "lossy", template=a_template(container, volumes=(record.volume(),), grace_seconds=20),
        training=synthetic_training(max_steps=STEPS, batch_size=BATCH, samples=SAMPLES),
        checkpoint=s3.checkpoint(f"lossy-{how}", every={"steps": 10})))
    job.wait_for_checkpoint(10)
    lose(kube, job)

    status = job.wait_for_phase("Succeeded", within=240)
    assert status["attempt"] == 2, status["attempts"]
    attempt = status["attempts"][0]
    assert (attempt["cause"], attempt["rank"], attempt.get("exitCode")) == (cause, 1, exit_code)
    # Where the kubelet reports an end later than the operator waits for it, rank 0's word decides, and the pod that seems to run is deleted.
    if how != "deletion" and "lost a peer" not in attempt["message"]:
        assert "the group is together" in kube.logs(attempt["pod"]), "the culprit's log is still there"
    resumed_from = min(record.steps()[2]) - 1
    assert resumed_from >= 10
    record.check_exactly_once(steps=STEPS, samples=SAMPLES, resumed_from={2: resumed_from})


def test_a_new_attempt_trains_while_rank_0s_old_pod_ignores_sigterm(kube, s3):
    # The shell is the container's first process: it ignores SIGTERM, and still runs after its worker has ended.
    stubborn = 'if [ "$RANK$TRAINYARD_ATTEMPT" = 01 ]; then trap "" TERM; trainyard-worker; sleep 60; fi; exec trainyard-worker'
    container = worker(command=["sh", "-c", stubborn])
    job = Job.apply(kube, a_job("stubborn", template=a_template(container, grace_seconds=60),
                                training=synthetic_training(max_steps=60), checkpoint=s3.checkpoint("stubborn", every={"steps": 5})))
    job.wait_for_checkpoint(5)
    lose_by_sigkill(kube, job)
    job.wait_for("attempt 2 trains", lambda s: s.get("attempt") == 2 and s.get("phase") in ("Running", "Succeeded"), within=50)
    old = kube.get("pods", job.pod_name(1, 0))
    assert "deletionTimestamp" in old["metadata"] and old["status"]["phase"] == "Running", "the old pod was to be there all the while"
    job.wait_for_phase("Succeeded", within=240)


def test_a_second_job_on_the_same_prefix_is_refused_by_name(kube, s3):
    training = synthetic_training(max_steps=100_000)
    first = Job.apply(kube, a_job("first", replicas=1, training=training, checkpoint=s3.checkpoint("shared", every={"steps": 5})))
    first.wait_for_checkpoint(5)
    second = Job.apply(kube, a_job("second", replicas=1, training=training, checkpoint=s3.checkpoint("shared")))
    status = second.wait_for("refused", lambda s: s.get("phase") == "Failed" or first.status().get("phase") == "Failed", within=240)
    assert first.status()["phase"] == "Running", first.status().get("message")
    assert "first" in status["message"]
    first.wait_for_checkpoint(first.status()["checkpoint"]["step"] + 1)


def test_suspend_saves_and_resume_continues_from_that_step(kube, cluster, s3):
    record = SampleRecord(cluster, kube.namespace)
    job = Job.apply(kube, a_job(
        "resting", template=a_template(record.container(), volumes=(record.volume(),), grace_seconds=60),
        training=synthetic_training(max_steps=STEPS, batch_size=BATCH, samples=SAMPLES),
        checkpoint=s3.checkpoint("resting", every={"steps": 1000})))
    job.wait_for("training", lambda s: s.get("progress", {}).get("step", 0) > 0)
    kube.kubectl("patch", "tj", "resting", "--type=merge", "-p", json.dumps({"spec": {"suspend": True}}))
    job.wait_for_phase("Suspended")
    saved_at = max(record.steps()[1])
    kube.kubectl("patch", "tj", "resting", "--type=merge", "-p", json.dumps({"spec": {"suspend": False}}))
    job.wait_for_phase("Succeeded", within=240)
    record.check_exactly_once(steps=STEPS, samples=SAMPLES, resumed_from={2: saved_at})


def test_a_job_deleted_and_applied_again_at_once_resumes_at_its_last_step(kube, s3):
    manifest = a_job("again", training=synthetic_training(max_steps=60), checkpoint=s3.checkpoint("again", every={"steps": 5}))
    job = Job.apply(kube, manifest)
    job.wait_for_checkpoint(5)
    job.delete("--wait=true", "--cascade=background")
    job = Job.apply(kube, manifest)
    job.wait_for_phase("Succeeded", within=240)
    assert "again/step-60/g-2/manifest.json" in s3.keys("again"), "the second job is the second to write there"
