"""The examples, applied unchanged by kubectl, train with the built worker; only the data set is shorter."""

from harness.cluster import REPOSITORY
from harness.dataset import apply_claim, write_short_set
from harness.jobs import Job

EXAMPLES = REPOSITORY / "examples"


def test_the_smoke_example_needs_nothing_but_the_operator(kube):
    kube.kubectl("apply", "-f", EXAMPLES / "smoke.yaml")
    status = Job(kube, "smoke").wait_for_phase("Succeeded", within=400)
    assert status["stepText"] == "200/200"


def test_the_fashion_mnist_example_trains_on_one_claim_and_keeps_checkpoints_on_another(kube, cluster):
    datasets, checkpoints = cluster.folder / "claims/datasets", cluster.folder / "claims/checkpoints"
    write_short_set(datasets / "fashion-mnist")
    checkpoints.mkdir(parents=True)
    checkpoints.chmod(0o777)  # A volume plugin would give it to the pods' group.
    apply_claim(kube, "datasets", datasets)
    apply_claim(kube, "checkpoints", checkpoints)
    kube.kubectl("apply", "-f", EXAMPLES / "fashion-mnist.yaml")
    status = Job(kube, "fashion-mnist").wait_for_phase("Succeeded", within=400)
    assert status["progress"]["epoch"] == 3
    assert list(checkpoints.glob("fashion-mnist/step-*/*/manifest.json"))
    assert list(checkpoints.glob("fashion-mnist/snapshots/g-1/step-*.json"))


def test_the_s3_example_trains_from_one_bucket_and_keeps_checkpoints_in_another(kube, s3):
    write_short_set(s3.folder / "datasets/fashion-mnist")
    manifest = (EXAMPLES / "s3.yaml").read_text().replace("https://s3.example.com", s3.endpoint)
    kube.kubectl("apply", "-f", "-", stdin=manifest)
    job = Job(kube, "fashion-mnist-s3")
    job.wait_for_phase("Succeeded", within=400)
    assert any(key.endswith("manifest.json") for key in s3.keys("fashion-mnist"))
