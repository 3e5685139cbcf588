"""The one node: containerd, its network, DNS and the kubelet. Runs inside the sandbox."""

import json
import subprocess
from pathlib import Path

from .control_plane import ControlPlane
from .failure import ClusterError
from .tiny_image import PAUSE_IMAGE, write_actor_images

NODE = "node0"
BRIDGE = "cni0"
GATEWAY = "10.244.0.1"  # The bridge's address, where DNS and the tests' servers for pods listen.
POD_RANGE = "10.244.0.0/24"
BRIDGE_ADDRESS = f"{GATEWAY}/24"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
CTR = ["ctr", "-a", CONTAINERD_SOCKET, "-n", "k8s.io"]


class Node:
    def __init__(self, plane: ControlPlane, control_group: str):
        self.plane = plane
        self.components = plane.components
        self.folder = plane.folder
        self.control_group = control_group

    def start_runtime(self) -> None:
        """Starts containerd and imports the images that every pod needs. Needs no API server yet."""
        config = self._write("containerd.toml", CONTAINERD_CONFIG.format(
            root=self.folder / "containerd", opt=self.folder / "opt", cni=self.folder / "cni", socket=CONTAINERD_SOCKET,
            pause=PAUSE_IMAGE, snapshotter=self._snapshotter()))
        (self.folder / "cni").mkdir()
        self._write("cni/10-bridge.conflist", json.dumps(self._network()))
        self.components.start("containerd", ["containerd", "--config", config])
        self.components.wait_until("containerd", "answering", lambda: _succeeds([*CTR, "version"]))
        for archive in write_actor_images(self.folder):
            import_image(archive)

    def start(self) -> None:
        """Returns when the node is Ready and DNS answers for the cluster's names."""
        self._start_dns()
        self._start_kubelet()
        self.components.wait_until("kubelet", "registered as a Ready node", self._is_ready)

    def _start_dns(self) -> None:
        self.components.start("coredns", [self.plane.tools / "coredns", "-conf", self._write("Corefile", COREFILE.format(
            gateway=GATEWAY, kubeconfig=self.folder / "internal.kubeconfig"))])

    def _start_kubelet(self) -> None:
        plane = self.plane
        plane.pki.sign("kubelet", f"/O=system:nodes/CN=system:node:{NODE}", (f"DNS:{NODE}", f"IP:{plane.addresses.advertised}"))
        kubeconfig = self.folder / "kubelet.kubeconfig"
        plane.pki.write_kubeconfig(kubeconfig, f"https://127.0.0.1:{plane.addresses.api_port}", certificate="kubelet")
        self._write("resolv.conf", f"nameserver {GATEWAY}\n")
        config = self._write("kubelet.json", json.dumps(self._kubelet_configuration(), indent=2))
        self.components.start("kubelet", [
            plane.tools / "kubelet", "--config", config, "--kubeconfig", kubeconfig, "--hostname-override", NODE,
            "--node-ip", plane.addresses.advertised, "--root-dir", self.folder / "kubelet"])

    def _kubelet_configuration(self) -> dict:
        pki = self.plane.pki
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
            "cgroupDriver": "cgroupfs", "cgroupRoot": f"/{self.control_group}", "failCgroupV1": False,
            "enforceNodeAllocatable": ["pods"], "failSwapOn": False,
            "clusterDNS": [GATEWAY], "clusterDomain": "cluster.local", "resolvConf": str(self.folder / "resolv.conf"),
            # Other programs fill the machine's disk too, for which the node must not evict pods or remove images.
            "evictionHard": {"nodefs.available": "1%", "imagefs.available": "1%"},
            "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
            "serializeImagePulls": False,
            # An image that was loaded stays usable when the same image is pulled under another name.
            "imagePullCredentialsVerificationPolicy": "NeverVerify",
            "authentication": {"x509": {"clientCAFile": str(pki.certificate("ca"))}, "webhook": {"enabled": True},
                               "anonymous": {"enabled": False}},
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": str(pki.certificate("kubelet")), "tlsPrivateKeyFile": str(pki.key("kubelet")),
        }

    def _is_ready(self) -> bool:
        node = self.plane.get(f"/api/v1/nodes/{NODE}") or {}
        conditions = node.get("status", {}).get("conditions", [])
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    def _network(self) -> dict:
        # No masquerading: pods reach only one another and this node, which is all that tests need.
        return {"cniVersion": "0.4.0", "name": "trainyard", "plugins": [{
            "type": "bridge", "bridge": BRIDGE, "isGateway": True, "hairpinMode": True,
            "ipam": {"type": "host-local", "dataDir": str(self.folder / "addresses"),
                     "ranges": [[{"subnet": POD_RANGE}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}

    def _snapshotter(self) -> str:
        """The snapshotter: overlayfs cannot be stacked on overlayfs, which is what a container has."""
        kind = subprocess.run(["stat", "-f", "-c", "%T", self.folder], capture_output=True, text=True, check=True).stdout.strip()
        return "native" if kind == "overlayfs" else "overlayfs"

    def _write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path


def import_image(archive: Path) -> None:
    """Imports an image into the node: a tar in `docker save`'s form, or an OCI archive."""
    done = subprocess.run([*CTR, "images", "import", str(archive)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(f"cannot import the image {archive} into the node: {done.stderr.strip()}")


def _succeeds(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


# restrict_oom_score_adj: without CAP_SYS_RESOURCE runc may not lower a container's score below its own.
CONTAINERD_CONFIG = """
version = 2
root = "{root}"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
]
[grpc]
  address = "{socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{opt}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{snapshotter}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{cni}"
"""

# Answers are not cached, since a pod's address changes with each attempt. Names outside the cluster do not exist.
COREFILE = """
cluster.local:53 {{
  bind {gateway}
  errors
  kubernetes {{
    kubeconfig {kubeconfig}
    ttl 1
  }}
}}
.:53 {{
  bind {gateway}
  errors
  template ANY ANY {{
    rcode NXDOMAIN
  }}
}}
"""
