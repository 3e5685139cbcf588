"""Copies of the checkpoint on the node, between those in the remote store."""

from harness.jobs import Job, a_job, a_template, synthetic_training
from harness.samples import MOUNT, SampleRecord
from harness.waiting import eventually

STEPS = 192  # Three epochs on two ranks.
SAMPLES = 2048


def test_a_pod_killed_between_two_remote_checkpoints_resumes_at_the_local_step(kube, cluster, s3):
    record = SampleRecord(cluster, kube.namespace)
    job = Job.apply(kube, a_job(
        "copied", template=a_template(record.container(), volumes=(record.volume(),), grace_seconds=20),
        training=synthetic_training(max_steps=STEPS, samples=SAMPLES),
        checkpoint=s3.checkpoint("copied", every={"steps": 1_000_000}, local={"path": f"{MOUNT}/local", "every": {"steps": 4}})))
    folder = record.folder / "local" / eventually("the job", job.read)["metadata"]["uid"]
    eventually("a copy on the node", lambda: list(folder.glob("step-*/g-1/manifest.json")))
    assert not any(key.endswith("manifest.json") for key in s3.keys("copied"))
    job.end_pod(1, 1, "sh", "-c", "kill -9 $(pidof trainyard-rank)")

    status = job.wait_for_phase("Succeeded", within=240)
    assert status["attempt"] == 2
    resumed_from = min(record.steps()[2]) - 1
    assert resumed_from > 0 and resumed_from % 4 == 0
    record.check_exactly_once(steps=STEPS, samples=SAMPLES, resumed_from={2: resumed_from})
    assert f"copied/step-{STEPS}/g-2/manifest.json" in s3.keys("copied")
    assert not folder.exists(), "copies go with the job's success"
