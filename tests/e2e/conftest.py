"""One cluster, one installation and one S3 server for all tests; a namespace for each."""

import fcntl
import os
import re
from pathlib import Path

import pytest
from harness.cluster import Cluster, OwnCluster
from harness.installation import Installation, build_images
from harness.kubernetes import Kubernetes
from harness.s3 import S3Server
from harness.waiting import eventually

# All pods of a group share the few processors of this machine: ranks that each use all of them would slow each other down.
ONE_PROCESSOR = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "one-processor"}, "spec": {"limits": [
    {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "10m"}}]}}
RESULTS = Path(os.environ["TRAINYARD_E2E_RESULTS"])
FOLDER = "TRAINYARD_E2E_CLUSTER"  # In the environment: the folder of the cluster that runs.


def pytest_configure(config):
    config.addinivalue_line("markers", "disturbs: does to what all share what other tests would suffer from")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session):
    """Starts what all tests share, in the controller of the test processes."""
    if FOLDER in os.environ or session.config.option.collectonly:
        return
    session.config.trainyard_cluster = cluster = OwnCluster()  # It starts while the images are built.
    try:
        archives = build_images()
        cluster.wait_until_ready()
        for archive in archives:
            cluster.load(archive)
        S3Server.start(cluster)
        Installation(cluster).install()
    except BaseException:
        cluster.save_logs(RESULTS)
        raise
    os.environ[FOLDER] = str(cluster.folder)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    cluster = getattr(session.config, "trainyard_cluster", None)
    if cluster is not None and exitstatus != 0:
        cluster.save_logs(RESULTS)


def pytest_unconfigure(config):
    cluster = getattr(config, "trainyard_cluster", None)
    if cluster is not None:
        cluster.stop()


def pytest_collection_modifyitems(items):
    """Puts the tests that disturb others last."""
    items.sort(key=lambda item: item.get_closest_marker("disturbs") is not None)


@pytest.fixture(autouse=True)
def _turn(request, cluster):
    """Runs tests that disturb others alone, and all other tests in parallel."""
    with open(cluster.folder / "turn", "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX if request.node.get_closest_marker("disturbs") else fcntl.LOCK_SH)
        yield


@pytest.fixture(scope="session", name="cluster")
def _cluster():
    return Cluster(Path(os.environ[FOLDER]))


@pytest.fixture(scope="session", name="admin")
def _admin(cluster):
    return Kubernetes(cluster.kubeconfig, "default")


@pytest.fixture(scope="session", name="installation")
def _installation(cluster):
    return Installation(cluster)


@pytest.fixture(scope="session", name="s3")
def _s3(cluster):
    return S3Server(cluster)


@pytest.fixture(name="kube")
def _kube(request, admin, s3):
    """The API in a namespace of the test's own, with the S3 server's keys in it. Trainyard is installed."""
    # Cases of one test differ only at the end of their names, and a namespace needs a while to be deleted.
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
    """The state of the cluster that explains most failures."""
    parts = [kube.try_kubectl(*question).stdout for question in (
        ("get", "trainingjobs,pods,services", "-o", "wide"), ("get", "trainingjobs", "-o", "yaml"),
        ("get", "events", "--sort-by=.metadata.creationTimestamp"), ("get", "pods", "-o", "yaml"))]
    for pod in kube.list("pods"):
        name = pod["metadata"]["name"]
        parts.append(f"--- log of {name}\n" + kube.try_kubectl("logs", name, "--all-containers").stdout)
    target.write_text("\n".join(parts))
