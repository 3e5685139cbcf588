"""etcd, kube-apiserver, kube-controller-manager and, where there are nodes, kube-scheduler."""

import dataclasses
import json
import socket
import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

from .components import Components
from .failure import ClusterError
from .pki import ADMIN_TOKEN, NOBODY_TOKEN, Pki

SERVICE_RANGE = "10.96.0.0/16"
API_SERVICE_ADDRESS = "10.96.0.1"  # The first address of SERVICE_RANGE, at which pods find the API server.


@dataclasses.dataclass(frozen=True)
class Addresses:
    """The addresses at which the control plane listens."""
    bind: str
    advertised: str  # For clients outside.
    api_port: int
    etcd_port: int
    etcd_peer_port: int

    @property
    def server(self) -> str:
        return f"https://{self.advertised}:{self.api_port}"

    @property
    def etcd(self) -> str:
        return f"http://127.0.0.1:{self.etcd_port}"


def loopback_addresses() -> Addresses:
    """Ports that are free now. Another process may take one before we do; then the caller must try again."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    ports = [s.getsockname()[1] for s in sockets]
    for each in sockets:
        each.close()
    return Addresses("127.0.0.1", "127.0.0.1", *ports)


def sandbox_addresses(advertised: str) -> Addresses:
    """Fixed ports, which are free inside the sandbox. The API server has the port of the service `kubernetes`, so no kube-proxy is needed."""
    return Addresses("0.0.0.0", advertised, 443, 2379, 2380)


class ControlPlane:
    """A control plane with its files in `folder`: pki/, etcd/, and the kubeconfigs of an administrator (by certificate, by token) and of a
    user without rights."""

    def __init__(self, folder: Path, tools: Path, components: Components, addresses: Addresses):
        self.folder = folder
        self.tools = tools
        self.components = components
        self.addresses = addresses
        self.pki = Pki(folder / "pki")
        self.kubeconfig = folder / "kubeconfig"
        self._write_credentials()

    def start(self, *, with_scheduler: bool) -> None:
        """Starts it. Returns when it serves requests and pods can be created in the namespace `default`."""
        self._start_etcd()
        self._start_api_server()
        self._start_controller_manager()
        if with_scheduler:
            self.components.start("kube-scheduler", [
                self.tools / "kube-scheduler", "--kubeconfig", self.folder / "internal.kubeconfig",
                "--leader-elect=false", "--secure-port=0"])
        # The server refuses pods in a namespace until the controller manager has made its default service account.
        self.components.wait_until("kube-controller-manager", "at work (no default service account yet)",
                                   lambda: self.get("/api/v1/namespaces/default/serviceaccounts/default") is not None)

    def apply_definitions(self, folder: Path) -> None:
        """Installs the CustomResourceDefinitions in `folder`, if any, and waits until the server serves them."""
        files = sorted([*folder.glob("*.yaml"), *folder.glob("*.json")])
        if not files:
            return
        self.kubectl("apply", "--server-side", *(word for file in files for word in ("-f", file)))
        # `kubectl wait` fails for a definition that has no conditions yet.
        for awaited in ("jsonpath={.status.conditions}", "condition=Established"):
            self.kubectl("wait", f"--for={awaited}", "--timeout=60s", *(word for file in files for word in ("-f", file)))

    def kubectl(self, *arguments: object, stdin: str | None = None) -> str:
        """Returns kubectl's output. Raises ClusterError with kubectl's error text when it fails."""
        command = [str(self.tools / "kubectl"), "--kubeconfig", str(self.folder / "internal.kubeconfig"), *map(str, arguments)]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ClusterError(f"`kubectl {' '.join(map(str, arguments))}` failed: {done.stderr.strip()}")
        return done.stdout

    def _write_credentials(self) -> None:
        names = ("DNS:localhost", "DNS:kubernetes", "DNS:kubernetes.default", "DNS:kubernetes.default.svc",
                 "IP:127.0.0.1", f"IP:{API_SERVICE_ADDRESS}", f"IP:{self.addresses.advertised}")
        self.pki.sign("apiserver", "/CN=kube-apiserver", names)
        self.pki.sign("admin", "/O=system:masters/CN=admin")
        server = self.addresses.server
        self.pki.write_kubeconfig(self.kubeconfig, server, certificate="admin")
        self.pki.write_kubeconfig(self.folder / "token.kubeconfig", server, token=ADMIN_TOKEN)
        self.pki.write_kubeconfig(self.folder / "nobody.kubeconfig", server, token=NOBODY_TOKEN)
        # The cluster's own programs reach the server by the loopback, which exists from the start.
        self.pki.write_kubeconfig(self.folder / "internal.kubeconfig", f"https://127.0.0.1:{self.addresses.api_port}",
                                  certificate="admin")

    def _start_etcd(self) -> None:
        a = self.addresses
        peer = f"http://127.0.0.1:{a.etcd_peer_port}"
        self.components.start("etcd", [
            self.tools / "etcd", "--name", "etcd0", "--data-dir", self.folder / "etcd",
            "--listen-client-urls", a.etcd, "--advertise-client-urls", a.etcd,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"etcd0={peer}",
            "--unsafe-no-fsync", "--log-level", "warn"])

    def _start_api_server(self) -> None:
        a, pki = self.addresses, self.pki
        self.components.start("kube-apiserver", [
            self.tools / "kube-apiserver", "--etcd-servers", a.etcd,
            "--bind-address", a.bind, "--secure-port", a.api_port, "--advertise-address", a.advertised,
            # A loopback address cannot be the endpoint of the service `kubernetes`, and without nodes nobody uses the service.
            "--endpoint-reconciler-type", "none" if a.advertised == "127.0.0.1" else "master-count",
            "--service-cluster-ip-range", SERVICE_RANGE,
            "--tls-cert-file", pki.certificate("apiserver"), "--tls-private-key-file", pki.key("apiserver"),
            "--client-ca-file", pki.certificate("ca"), "--token-auth-file", pki.folder / "tokens.csv",
            "--service-account-key-file", pki.folder / "service-account.pub",
            "--service-account-signing-key-file", pki.key("service-account"),
            "--service-account-issuer", "https://kubernetes.default.svc",
            "--authorization-mode", "Node,RBAC", "--allow-privileged",
            "--kubelet-certificate-authority", pki.certificate("ca"),
            "--kubelet-client-certificate", pki.certificate("admin"), "--kubelet-client-key", pki.key("admin"),
            "--kubelet-preferred-address-types", "InternalIP"])
        # The RBAC bootstrap is the last check of /readyz; before it the server refuses even administrators.
        self.components.wait_until("kube-apiserver", "ready", lambda: self.get("/readyz") is not None)

    def _start_controller_manager(self) -> None:
        self.components.start("kube-controller-manager", [
            self.tools / "kube-controller-manager", "--kubeconfig", self.folder / "internal.kubeconfig",
            "--service-account-private-key-file", self.pki.key("service-account"),
            "--root-ca-file", self.pki.certificate("ca"), "--use-service-account-credentials",
            "--leader-elect=false", "--secure-port=0"])

    def get(self, path: str) -> dict | None:
        """The API server's answer to an administrator; None while it does not answer, or when it has no such object."""
        context = ssl.create_default_context(cafile=str(self.pki.certificate("ca")))
        context.load_cert_chain(self.pki.certificate("admin"), self.pki.key("admin"))
        url = f"https://127.0.0.1:{self.addresses.api_port}{path}"
        try:
            with urllib.request.urlopen(url, context=context, timeout=5) as answer:
                return json.load(answer) if path.startswith("/api") else {"text": answer.read().decode()}
        except (urllib.error.URLError, OSError):
            return None
