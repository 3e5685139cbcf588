"""Trainyard in the cluster: both images and the chart, installed by the real helm."""

import json
import os
import subprocess
from pathlib import Path

from harness.cluster import REPOSITORY, TOOLS, Cluster
from harness.kubernetes import Kubernetes
from harness.waiting import eventually

NAMESPACE = "trainyard-system"
LEASES = "/apis/coordination.k8s.io/v1"


def build_images() -> list[Path]:
    """Archives of both images, from the programs of build/release, or of build/$TRAINYARD_E2E_PRESET."""
    preset = os.environ.get("TRAINYARD_E2E_PRESET", "release")
    return [Path(subprocess.run([str(REPOSITORY / "docker/build"), image, "--preset", preset],
                                check=True, stdout=subprocess.PIPE, text=True).stdout.strip())
            for image in ("operator", "worker")]


class Installation:
    def __init__(self, cluster: Cluster):
        self.cluster = cluster
        self.kube = Kubernetes(cluster.kubeconfig, NAMESPACE)

    def install(self) -> str:
        """The output of helm, with the chart's notes."""
        return self.helm(
            "install", "trainyard", REPOSITORY / "charts/trainyard", "--create-namespace", "--wait", "--timeout", "3m")

    def helm(self, *arguments: object) -> str:
        words = [str(TOOLS / "helm"), "-n", NAMESPACE, *map(str, arguments)]
        done = subprocess.run(words, capture_output=True, text=True, check=False,
                              env={**os.environ, "KUBECONFIG": str(self.kube.kubeconfig), "HELM_CACHE_HOME": str(self.cluster.folder / "helm")})
        assert done.returncode == 0, f"helm {arguments[0]}: {done.stderr.strip()}"
        return done.stdout

    def revision(self) -> int:
        """The number of helm's newest revision."""
        return json.loads(self.helm("history", "trainyard", "-o", "json"))[-1]["revision"]

    def pods(self) -> list[dict]:
        return [pod for pod in self.kube.list("pods", "app.kubernetes.io/name=trainyard-operator")
                if "deletionTimestamp" not in pod["metadata"]]

    def holder(self) -> str:
        """The holder of the Lease, the process that leads; empty if none does."""
        holders = [lease["spec"].get("holderIdentity") or "" for lease in self.kube.list("leases", api=LEASES)]
        return holders[0] if holders else ""

    def leader(self) -> str:
        """The name of the pod that leads; empty if none does."""
        holder = self.holder()
        return next((pod["metadata"]["name"] for pod in self.pods() if holder.startswith(pod["metadata"]["name"])), "")

    def wait_until_led(self) -> str:
        return eventually("an operator leads", self.leader)

    def wait_until_settled(self) -> None:
        """Waits until both replicas are Ready: a killed container is restarted after a pause."""
        eventually("two operators are ready", self.pods,
                   lambda pods: len(pods) == 2 and all(_is_ready(pod) for pod in pods), within=180)

    def kill_all(self) -> None:
        """SIGKILL to every operator, as a node's memory pressure or a power cut would."""
        before = {pod["metadata"]["name"]: _restarts(pod) for pod in self.pods()}
        killed = self.cluster.kill_inside("trainyard-operator")
        assert killed > 0, "no operator ran"
        # The pods still look ready until the kubelet has noticed.
        eventually("the kubelet has noticed", self.pods, lambda pods: killed <= sum(
            not _is_ready(pod) or _restarts(pod) > before.get(pod["metadata"]["name"], 0) for pod in pods))


def _restarts(pod: dict) -> int:
    return sum(container["restartCount"] for container in pod["status"].get("containerStatuses", []))


def _is_ready(pod: dict) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))
