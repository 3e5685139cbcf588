"""The command `trainyard`, as a user of the cluster runs it."""

import os
import subprocess

from harness.cluster import REPOSITORY
from harness.kubernetes import Kubernetes

PROGRAM = REPOSITORY / "build" / os.environ.get("TRAINYARD_E2E_PRESET", "release") / "bin/trainyard"


def trainyard(kube: Kubernetes, command: str, *arguments: object, within: float = 120) -> subprocess.CompletedProcess:
    """The result of the command in the namespace of `kube`."""
    words = [str(PROGRAM), command, *map(str, arguments), "-n", kube.namespace, "--kubeconfig", str(kube.kubeconfig)]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=within)
