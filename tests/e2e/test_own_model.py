"""A model of one's own, as docs/own-model.md says: built in the devel image, run in an image that begins from the worker's."""

import os
import subprocess
from pathlib import Path

from harness.cluster import REPOSITORY
from harness.jobs import Job

PRESET = os.environ.get("TRAINYARD_E2E_PRESET", "release")
IMAGE = "localhost/my-net:1"


def run(*command: object) -> str:
    return subprocess.run([str(word) for word in command], cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def test_the_project_that_init_writes_builds_in_the_devel_image_and_trains_in_pods(kube, cluster, tmp_path):
    run(REPOSITORY / f"build/{PRESET}/bin/trainyard", "init", "model", "my_net", "--dir", tmp_path / "my-net")
    run("docker/build", "devel", "--preset", PRESET)
    archive = Path(run("docker/build", tmp_path / "my-net", "--tag", IMAGE))
    cluster.load(archive)
    archive.unlink()
    job = (tmp_path / "my-net/my_net.yaml").read_text()
    kube.kubectl("apply", "-f", "-", stdin=job.replace("registry.example.com/my-net:1", IMAGE))
    status = Job(kube, "my-net").wait_for_phase("Succeeded", within=400)
    assert status["stepText"] == "300/300"
