"""One cluster, one installation and one S3 server for all tests; a namespace for each."""

import os
import re
from pathlib import Path

import pytest
from harness.cluster import Cluster
from harness.installation import Installation, build_images
from harness.kubernetes import Kubernetes
from harness.s3 import S3Server
from harness.waiting import eventually

# The node is this machine, whose few processors all pods of a group share: ranks that take all of them hold each other up.
ONE_PROCESSOR = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "one-processor"}, "spec": {"limits": [
    {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "10m"}}]}}
RESULTS = Path(os.environ["TRAINYARD_E2E_RESULTS"])


@pytest.fixture(scope="session", name="cluster")
def _cluster(request):
    cluster = Cluster()  # It starts while the images are built.
    try:
        cluster.archives = build_images()
        cluster.wait_until_ready()
        for archive in cluster.archives:
            cluster.load(archive)
        yield cluster
        if request.session.testsfailed:
            cluster.save_logs(RESULTS)
    finally:
        cluster.stop()


@pytest.fixture(scope="session", name="admin")
def _admin(cluster):
    return Kubernetes(cluster.kubeconfig, "default")


@pytest.fixture(scope="session", name="installation")
def _installation(cluster, admin):
    installation = Installation(cluster, admin)
    installation.notes = installation.install()
    return installation


@pytest.fixture(scope="session", name="s3")
def _s3(cluster):
    return S3Server(cluster)


@pytest.fixture(name="kube")
def _kube(request, admin, installation, s3):  # pylint: disable=unused-argument
    """The API in a namespace of the test's own, with the S3 server's keys in it. Trainyard is installed."""
    # Cases of one test differ by their ends only, and a namespace takes a while to go.
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower()).strip("-")
    name = words if len(words) <= 40 else f"{words[:25].strip('-')}-{words[-14:].strip('-')}"
    kube = admin.in_namespace(name)
    kube.kubectl("create", "namespace", name)
    eventually("the namespace's service account", lambda: kube.get("serviceaccounts", "default"))
    kube.apply(s3.secret(), ONE_PROCESSOR)
    yield kube
    if request.session.testsfailed > request.session.__dict__.setdefault("trainyard_failures_told", 0):
        request.session.trainyard_failures_told = request.session.testsfailed
        _describe(kube, RESULTS / f"{name}.txt")
    kube.kubectl("delete", "trainingjobs", "--all", "--wait=false")
    kube.kubectl("delete", "namespace", name, "--wait=false")


def _describe(kube: Kubernetes, target: Path) -> None:
    """What a person would ask the cluster first about a failed test."""
    parts = [kube.try_kubectl(*question).stdout for question in (
        ("get", "trainingjobs,pods,services", "-o", "wide"), ("get", "trainingjobs", "-o", "yaml"),
        ("get", "events", "--sort-by=.metadata.creationTimestamp"), ("get", "pods", "-o", "yaml"))]
    for pod in kube.list("pods"):
        name = pod["metadata"]["name"]
        parts.append(f"--- log of {name}\n" + kube.try_kubectl("logs", name, "--all-containers").stdout)
    target.write_text("\n".join(parts))
