"""Wrong input causes one clear error, in the first program that can find it."""

import json

import pytest
from harness.jobs import Job, a_job, a_template, actor, synthetic_training, worker
from harness.waiting import eventually


def refusal(kube, manifest: dict) -> str:
    done = kube.try_kubectl("create", "-f", "-", stdin=json.dumps(manifest))
    assert done.returncode != 0, "the API server took it"
    return done.stderr


def test_the_api_server_refuses_a_template_without_a_container(kube):
    assert "nothing to run: give training" in refusal(kube, a_job("empty", template=a_template()))


def test_the_api_server_refuses_several_containers_of_which_none_is_the_worker(kube):
    template = a_template(actor("wait", name="left"), actor("wait", name="right"))
    assert "one must be named worker" in refusal(kube, a_job("unclear", template=template))


def test_the_api_server_says_what_a_wrong_field_may_be(kube):
    training = synthetic_training(max_steps=4) | {"optimizer": {"name": "lion"}}
    assert 'supported values: "adam", "adamw", "lamb", "sgd"' in refusal(kube, a_job("optimistic", training=training))


def test_a_pod_field_that_does_not_exist_is_reported_in_the_api_servers_words(kube):
    job = Job.apply(kube, a_job("mistyped", template=a_template(actor("wait"), nodeSelectr={"a": "b"})))
    status = job.wait_for_phase("Failed")
    assert status["reason"] == "InvalidTemplate"
    assert 'unknown field "spec.nodeSelectr"' in job.condition("InvalidTemplate")["message"]
    assert job.pods() == []


# field of the job -> words that its failure must have
WRONG_AT_RUN_TIME = {
    "bucket": ({"bucket": "no-such-bucket"}, {}, ["no-such-bucket"]),
    "key": ({"secret": "wrong-key"}, {}, ["s3://models/", "SignatureDoesNotMatch"]),
    "data": ({}, {"data": {"format": "idx", "path": "/no/such/folder"}}, ["/no/such/folder"]),
    "model": ({}, {"model": {"name": "no_such_model"}}, ["no_such_model", "fashion_cnn"]),
}


@pytest.mark.parametrize("wrong", WRONG_AT_RUN_TIME)
def test_the_worker_ends_without_a_restart_on_a_wrong(kube, s3, wrong):
    checkpoint, training, words = WRONG_AT_RUN_TIME[wrong]
    kube.apply(s3.secret("wrong-key", secret_key="not-the-key"))
    template = a_template(worker(environment={"TRAINYARD_STORAGE_PATIENCE_SECONDS": "3"}))
    job = Job.apply(kube, a_job("misled", template=template, training=synthetic_training(max_steps=4) | training,
                                checkpoint=s3.checkpoint(f"misled-{wrong}", **checkpoint)))
    status = job.wait_for_phase("Failed")
    assert status["attempt"] == 1, "a restart cannot help"
    assert status["attempts"][0]["exitCode"] == 93
    for word in words:
        assert word in status["message"]


NO_RESTART = {"infrastructure": {"max": 0}}
PEER_PORT = 29502


def test_a_port_that_another_container_of_the_pod_has_taken_is_named(kube):
    # The worker starts once the port is certainly in use.
    late = worker(command=["sh", "-c", "sleep 3; exec trainyard-worker"])
    template = a_template(late, actor("listen", str(PEER_PORT), "wait", name="squatter"))
    job = Job.apply(kube, a_job("crowded", restart=NO_RESTART, template=template, training=synthetic_training(max_steps=4)))
    status = job.wait_for_phase("Failed")
    assert status["attempts"][0]["exitCode"] == 94
    assert f"port {PEER_PORT}" in status["message"] and "in use" in status["message"]


def test_a_rank_0_whose_name_does_not_resolve_is_reported_at_once_and_ends_the_attempt_at_the_deadline(kube):
    lost = worker(command=["sh", "-c", 'test "$RANK" = 0 || export MASTER_ADDR=no-such-host.invalid; exec trainyard-worker'],
                  environment={"TRAINYARD_RENDEZVOUS_SECONDS": "15"})
    job = Job.apply(kube, a_job("lost", restart=NO_RESTART, template=a_template(lost), training=synthetic_training(max_steps=4)))
    job.wait_for("says whom it waits for", lambda s: "rank 1 of 2 has not come" in s.get("message", ""), within=60)
    eventually("rank 1 says why it does not come", lambda: kube.logs(job.pod_name(1, 1)),
               lambda log: "the name no-such-host.invalid does not resolve" in log, within=10)
    status = job.wait_for_phase("Failed")
    assert status["attempts"][0]["exitCode"] == 94


# name of the damage -> what is done to a data file of the newest checkpoint
HARM = {"torn": lambda data: data[:len(data) // 2], "tampered": lambda data: data[:-1] + bytes([data[-1] ^ 1])}


@pytest.mark.parametrize("how", HARM)
def test_a_damaged_checkpoint_is_reported_and_skipped_for_the_one_before(kube, s3, how):
    prefix = f"harmed-{how}"
    checkpoint = s3.checkpoint(prefix, every={"steps": 5}, whenBusy="wait")
    Job.apply(kube, a_job("harmed", training=synthetic_training(max_steps=20), checkpoint=checkpoint)).wait_for_phase("Succeeded", within=240)
    (data_file,) = (s3.folder / "models" / prefix / "step-20/g-1").glob("rank-0-*.safetensors")
    data_file.write_bytes(HARM[how](data_file.read_bytes()))
    kube.delete("trainingjob", "harmed")
    job = Job.apply(kube, a_job("harmed", training=synthetic_training(max_steps=30), checkpoint=checkpoint))
    job.wait_for_phase("Succeeded", within=240)
    log = kube.logs(job.pod_name(1, 0))
    assert "checkpoint skipped" in log and "step-20/g-1" in log
    assert '"resumed from a checkpoint"' in log and '"step":15' in log
