"""A job's status says within seconds why it waits, and the job continues by itself once the cause is gone."""

import json

from harness.jobs import Job, a_job, a_template, actor, an_actor_job, synthetic_training

SECONDS = 30  # A bar for a loaded machine; the operator itself needs well under a second once the cluster has noticed.


def wait_until_pending(job: Job, reason: str) -> dict:
    status = job.wait_for(f"Pending({reason})", lambda s: (s.get("phase"), s.get("reason")) == ("Pending", reason), within=SECONDS)
    assert status["restarts"] == {"application": 0, "infrastructure": 0}, "waiting is never charged"
    return status


def test_a_job_that_no_node_can_hold_is_unschedulable(kube):
    job = Job.apply(kube, a_job("greedy", template=a_template(actor("wait", resources={"limits": {"cpu": "1000"}}))))
    status = wait_until_pending(job, "Unschedulable")
    assert "Insufficient cpu" in status["message"]


def test_a_job_that_wants_gpus_where_there_are_none_says_so(kube):
    status = wait_until_pending(Job.apply(kube, an_actor_job("graphic", "wait", gpusPerPod=1)), "Unschedulable")
    assert "nvidia.com/gpu" in status["message"]


def test_a_job_above_the_quota_waits_and_starts_when_there_is_room(kube):
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}, "spec": {"hard": {"pods": "1"}}}
    kube.apply(quota)
    job = Job.apply(kube, an_actor_job("crowded", "wait"))
    status = wait_until_pending(job, "QuotaExceeded")
    assert "exceeded quota: small" in status["message"]
    kube.kubectl("patch", "resourcequota", "small", "--type=merge", "-p", json.dumps({"spec": {"hard": {"pods": "4"}}}))
    job.wait_for_phase("Running")


def test_an_image_that_cannot_be_pulled_is_named(kube):
    container = {"name": "worker", "image": "localhost/no-such-image:1", "imagePullPolicy": "IfNotPresent"}
    status = wait_until_pending(Job.apply(kube, a_job("imageless", template=a_template(container))), "ImagePull")
    assert "localhost/no-such-image:1" in status["message"]


def test_a_missing_secret_is_named_and_the_job_starts_once_it_is_there(kube, s3):
    job = Job.apply(kube, a_job("secretless", replicas=1, training=synthetic_training(max_steps=4),
                                checkpoint=s3.checkpoint("secretless", secret="not-yet")))
    status = wait_until_pending(job, "SecretMissing")
    assert '"not-yet" not found' in status["message"]
    kube.apply(s3.secret("not-yet"))
    job.wait_for_phase("Succeeded")


def test_a_missing_secret_that_is_a_volume_is_named_and_the_job_starts_once_it_is_there(kube):
    container = actor("wait", volumeMounts=[{"name": "keys", "mountPath": "/keys"}])
    template = a_template(container, volumes=[{"name": "keys", "secret": {"secretName": "not-yet"}}])
    job = Job.apply(kube, a_job("keyless", replicas=1, template=template))
    status = wait_until_pending(job, "SecretMissing")
    assert 'secret "not-yet" not found' in status["message"]
    kube.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "not-yet"}, "stringData": {"key": "value"}})
    job.wait_for_phase("Running", within=150)  # The kubelet tries again with a growing pause.


def test_a_missing_claim_is_named(kube):
    data = {"format": "idx", "volumeClaim": "no-such-claim", "path": "fashion-mnist"}
    job = Job.apply(kube, a_job("claimless", training={"model": {"name": "fashion_cnn"}, "data": data, "maxSteps": 4}))
    status = wait_until_pending(job, "ClaimMissing")
    assert 'persistentvolumeclaim "no-such-claim" not found' in status["message"]
