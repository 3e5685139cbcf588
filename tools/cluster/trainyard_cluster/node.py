"""The one node: containerd, its network, DNS and the kubelet. Runs inside the sandbox."""

import json
import subprocess
from pathlib import Path

from .control_plane import ControlPlane
from .failure import ClusterError
from .tiny_image import PAUSE_IMAGE, write_actor_images

NODE = "node0"
BRIDGE = "cni0"
GATEWAY = "10.244.0.1"  # The bridge's own address: DNS, and whatever tests offer to pods.
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
        """containerd with the images that every pod needs. The API server need not be there yet."""
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
        self.components.wait_until("kubelet", "a Ready node", self._is_ready)

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
            # The machine's disk is shared with other things: a node that throws out pods or images for that is no use to a test.
            "evictionHard": {"nodefs.available": "1%", "imagefs.available": "1%"},
            "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
            "serializeImagePulls": False,
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
        # No masquerading: pods reach one another and this node, which is all that tests need, and nothing beyond.
        return {"cniVersion": "0.4.0", "name": "trainyard", "plugins": [{
            "type": "bridge", "bridge": BRIDGE, "isGateway": True, "hairpinMode": True,
            "ipam": {"type": "host-local", "dataDir": str(self.folder / "addresses"),
                     "ranges": [[{"subnet": POD_RANGE}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}

    def _snapshotter(self) -> str:
        """overlayfs does not stack on itself, as it would have to inside a container."""
        kind = subprocess.run(["stat", "-f", "-c", "%T", self.folder], capture_output=True, text=True, check=True).stdout.strip()
        return "native" if kind == "overlayfs" else "overlayfs"

    def _write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path


def import_image(archive: Path) -> None:
    """Makes an image known to the node: a tar in `docker save`'s form, or an OCI archive."""
    done = subprocess.run([*CTR, "images", "import", str(archive)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(f"importing image {archive}: {done.stderr.strip()}")


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

# Answers are fresh (a pod's address changes with each attempt), and names that are not the cluster's do not exist.
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
