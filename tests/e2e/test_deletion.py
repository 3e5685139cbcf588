"""checkpoint.onDelete: the checkpoints of a job are deleted with it, and nothing else is."""

from harness.jobs import Job, a_job, synthetic_training
from harness.waiting import eventually

CLEAN_UP_SECONDS = 90  # A bar for a loaded machine: two pods end, one starts.


def test_checkpoints_are_removed_with_a_job_whose_on_delete_is_delete(kube, s3):
    job = Job.apply(kube, a_job("trial", training=synthetic_training(max_steps=100_000, snapshots={"every": {"steps": 5}}),
                                checkpoint=s3.checkpoint("trial", every={"steps": 5}, onDelete="Delete")))
    job.wait_for_checkpoint(10)
    assert job.read()["metadata"]["finalizers"] == ["trainyard.dev/checkpoint-clean-up"]
    eventually("there are snapshots", lambda: s3.keys("trial"), lambda keys: any("/snapshots/g-1/step-" in key for key in keys))
    note = s3.folder / "models/trial/notes.txt"
    note.write_text("a person's own")
    job.delete("--wait=false")
    job.wait_for("says what it waits for", lambda s: s.get("phase") in ("Deleting", None), within=CLEAN_UP_SECONDS)
    eventually("the job is gone", job.read, lambda read: read is None, within=CLEAN_UP_SECONDS)
    assert s3.keys("trial") == ["trial/notes.txt"]
    eventually("its pods are gone", lambda: kube.list("pods"), lambda pods: pods == [])


def test_checkpoints_of_a_job_that_failed_before_it_saved_are_no_hindrance(kube, s3):
    job = Job.apply(kube, a_job("unlucky", training=synthetic_training(max_steps=4) | {"model": {"name": "no_such_model"}},
                                checkpoint=s3.checkpoint("unlucky", onDelete="Delete")))
    job.wait_for_phase("Failed")
    job.delete("--wait=false")
    eventually("the job is gone", job.read, lambda read: read is None, within=CLEAN_UP_SECONDS)


def test_nothing_is_removed_where_another_job_has_saved_as_well(kube, s3):
    first = Job.apply(kube, a_job("first", replicas=1, training=synthetic_training(max_steps=10),
                                  checkpoint=s3.checkpoint("mixed", every={"steps": 5})))
    first.wait_for_phase("Succeeded", within=240)
    heir = Job.apply(kube, a_job("heir", replicas=1, training=synthetic_training(max_steps=20),
                                 checkpoint=s3.checkpoint("mixed", every={"steps": 5}, onDelete="Delete")))
    heir.wait_for_phase("Succeeded", within=240)
    before = s3.keys("mixed")
    heir.delete("--wait=false")
    eventually("the job is gone", heir.read, lambda read: read is None, within=CLEAN_UP_SECONDS)
    assert [key for key in s3.keys("mixed") if key not in before] == []
    assert [key for key in before if key not in s3.keys("mixed")] == []
    (told,) = [event["message"] for event in kube.list("events") if "CheckpointsLeft" in event.get("message", "")]
    assert f"generation 1 of job {kube.namespace}/first" in told


def test_a_namespace_is_deleted_although_checkpoints_were_to_be_removed_first(kube, s3):
    inner = kube.in_namespace(f"{kube.namespace[:50]}-inner")
    kube.kubectl("create", "namespace", inner.namespace)
    eventually("the namespace's service account", lambda: inner.get("serviceaccounts", "default"))
    inner.apply(s3.secret())
    job = Job.apply(inner, a_job("inmate", replicas=1, training=synthetic_training(max_steps=100_000),
                                 checkpoint=s3.checkpoint("inmate", every={"steps": 5}, onDelete="Delete")))
    job.wait_for_checkpoint(5)
    kube.kubectl("delete", "namespace", inner.namespace, "--wait=false")
    eventually("the namespace is gone", lambda: kube.read(f"/api/v1/namespaces/{inner.namespace}"), lambda read: read is None, within=240)
