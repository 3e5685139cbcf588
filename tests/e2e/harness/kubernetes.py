"""The API for tests: writes with the real kubectl, reads directly from the server, since tests read often."""

import http.client
import json
import os
import ssl
import subprocess
from pathlib import Path

from harness.cluster import TOOLS

JOBS = "/apis/trainyard.dev/v1alpha1"
CORE = "/api/v1"


class Kubernetes:
    """The API for the cluster's administrator, in one namespace."""

    def __init__(self, kubeconfig: Path, namespace: str):
        self.kubeconfig = kubeconfig
        self.namespace = namespace
        config = json.loads(kubeconfig.read_text())
        pki = kubeconfig.parent / "pki"
        context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        self._host = config["clusters"][0]["cluster"]["server"].removeprefix("https://")
        self._context = context
        self._connection: http.client.HTTPSConnection | None = None

    def in_namespace(self, namespace: str) -> "Kubernetes":
        return Kubernetes(self.kubeconfig, namespace)

    def kubectl(self, *arguments: object, stdin: str | None = None) -> str:
        """The output of kubectl. AssertionError with its output if it fails."""
        done = self.try_kubectl(*arguments, stdin=stdin)
        assert done.returncode == 0, f"kubectl {' '.join(map(str, arguments))}: {done.stderr.strip()}"
        return done.stdout

    def try_kubectl(self, *arguments: object, stdin: str | None = None) -> subprocess.CompletedProcess:
        words = [str(TOOLS / "kubectl"), "-n", self.namespace, *map(str, arguments)]
        return subprocess.run(words, input=stdin, capture_output=True, text=True, check=False,
                              env={**os.environ, "KUBECONFIG": str(self.kubeconfig)})

    def apply(self, *objects: dict) -> str:
        items = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        return self.kubectl("apply", "-f", "-", stdin=json.dumps(items))

    def delete(self, kind: str, name: str, *options: str) -> None:
        self.kubectl("delete", kind, name, "--ignore-not-found", *options)

    def read(self, path: str) -> dict | None:
        """The object or list at `path` of the API; None if there is none."""
        for is_last_try in (False, True):
            try:
                if self._connection is None:
                    self._connection = http.client.HTTPSConnection(self._host, context=self._context, timeout=30)
                self._connection.request("GET", path)
                answer = self._connection.getresponse()
                body = json.loads(answer.read())
                if answer.status == 404:
                    return None
                assert answer.status == 200, f"GET {path}: {answer.status} {body.get('message')}"
                return body
            except (OSError, http.client.HTTPException):
                self._connection = None  # The server closed an idle connection: once more on a new one.
                if is_last_try:
                    raise
        raise AssertionError("unreachable")

    def get(self, plural: str, name: str, api: str = CORE) -> dict | None:
        return self.read(f"{api}/namespaces/{self.namespace}/{plural}/{name}")

    def list(self, plural: str, selector: str = "", api: str = CORE) -> list[dict]:
        query = f"?labelSelector={selector.replace('=', '%3D').replace(',', '%2C').replace('/', '%2F')}" if selector else ""
        return self.read(f"{api}/namespaces/{self.namespace}/{plural}{query}")["items"]

    def logs(self, pod: str) -> str:
        return self.kubectl("logs", pod)
