"""README.md and docs/cluster.md, followed to the letter on a cluster as their readers get it."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from harness.cluster import SCRIPT
from harness.documents import USE_CLUSTER, blocks_of, follow
from harness.jobs import Job
from harness.kubernetes import Kubernetes

pytestmark = pytest.mark.disturbs  # Its pods take all processors that they find, within times that the documents give.

CHECKPOINTS = Path("/var/tmp/checkpoints")  # The folder that docs/cluster.md makes.


@pytest.fixture(name="folder")
def _folder():
    """The folder of a cluster of its own, beside the clusters of the other tests and of the machine's owner."""
    if os.environ.get("TRAINYARD_E2E_PRESET", "release") != "release":
        pytest.skip("the documents build the images from build/release")
    had_checkpoints = CHECKPOINTS.exists()
    with tempfile.TemporaryDirectory(prefix="trainyard-e2e-documents-", dir="/var/tmp") as parent:
        folder = Path(parent) / "cluster"
        yield folder
        subprocess.run([SCRIPT, "down", "--dir", str(folder)], check=True)
    if not had_checkpoints:
        shutil.rmtree(CHECKPOINTS, ignore_errors=True)


def test_the_readme_can_be_followed(folder):
    said = follow(folder, blocks_of("README.md", "scripts/cluster up")[0])
    assert "trainingjob.trainyard.dev/smoke condition met" in said
    assert f"ended the cluster of {folder}" in said
    assert not folder.exists()


def test_the_page_on_clusters_can_be_followed(folder):
    start, claims, *_ = blocks_of("docs/cluster.md", "scripts/cluster up")
    assert "trainingjob.trainyard.dev/smoke condition met" in follow(folder, start)
    follow(folder, USE_CLUSTER + claims)
    Job(Kubernetes(folder / "kubeconfig", "default"), "fashion-mnist").wait_for(
        "the first step", lambda status: status.get("progress", {}).get("step", 0) > 0, within=400)
    # This kubeconfig names no namespace, so the namespace is "default", as for kubectl.
    assert "step" in follow(folder, USE_CLUSTER + "build/release/bin/trainyard checkpoint fashion-mnist")
