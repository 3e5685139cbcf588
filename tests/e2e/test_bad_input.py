"""Wrong input is answered by one clear error, at the first place that can know."""

import json

import pytest
from harness.jobs import Job, a_job, a_template, actor, synthetic_training


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
    training = synthetic_training(max_steps=4) | {"optimizer": {"name": "adamw"}}
    assert 'supported values: "adam", "sgd"' in refusal(kube, a_job("optimistic", training=training))


def test_a_pod_field_that_does_not_exist_is_told_in_the_api_servers_words(kube):
    job = Job.apply(kube, a_job("mistyped", template=a_template(actor("wait"), nodeSelectr={"a": "b"})))
    status = job.wait_for_phase("Failed")
    assert status["reason"] == "InvalidTemplate"
    assert 'unknown field "spec.nodeSelectr"' in job.condition("InvalidTemplate")["message"]
    assert job.pods() == []


# field of the job -> words that its failure must have
WRONG_AT_RUN_TIME = {
    "bucket": ({"bucket": "no-such-bucket"}, {}, ["no-such-bucket"]),
    "key": ({"secret": "wrong-key"}, {}, ["s3://models/"]),
    "data": ({}, {"data": {"format": "idx", "path": "/no/such/folder"}}, ["/no/such/folder"]),
    "model": ({}, {"model": {"name": "no_such_model"}}, ["no_such_model", "fashion_cnn"]),
}


@pytest.mark.parametrize("wrong", WRONG_AT_RUN_TIME)
def test_the_worker_ends_at_once_on_a_wrong(kube, s3, wrong):
    checkpoint, training, words = WRONG_AT_RUN_TIME[wrong]
    kube.apply(s3.secret("wrong-key", secret_key="not-the-key"))
    job = Job.apply(kube, a_job("misled", training=synthetic_training(max_steps=4) | training,
                                checkpoint=s3.checkpoint(f"misled-{wrong}", **checkpoint)))
    status = job.wait_for_phase("Failed")
    assert status["attempt"] == 1, "a restart cannot help"
    assert status["attempts"][0]["exitCode"] == 93
    for word in words:
        assert word in status["message"]
