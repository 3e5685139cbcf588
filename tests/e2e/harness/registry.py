"""A registry from which the cluster pulls, and a `docker` that pushes to it."""

import shlex
import shutil
import subprocess

from harness.cluster import END_SECONDS_MAX, SCRIPT, Cluster

PORT = 5000
SETTINGS = {
    "registry.yaml": "version: 0.1\nstorage: {{filesystem: {{rootdirectory: {folder}/pushed}}}}\nhttp: {{addr: 127.0.0.1:{port}}}\n",
    # As Docker does by itself for a registry of the loopback network.
    "registries.conf": '[[registry]]\nlocation = "127.0.0.1:{port}"\ninsecure = true\n',
    # No systemd runs on the node. zstd takes a third of gzip's time.
    "containers.conf": '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\ncompression_format = "zstd"\n',
}
# podman takes the words of docker. It runs on the node, where the registry listens, in the folder where `docker` was called.
DOCKER = """#!/bin/sh
exec {script} exec --dir {cluster} -- env CONTAINERS_CONF={folder}/containers.conf CONTAINERS_REGISTRIES_CONF={folder}/registries.conf \\
  sh -c 'cd "$0" && exec podman --root {folder}/images --runroot {folder}/run "$@"' "$PWD" "$@"
"""


class Registry:
    """A registry at `address` on the cluster's node, and `docker` in the folder `programs`, until the end of the `with` block."""

    address = f"127.0.0.1:{PORT}"

    def __init__(self, cluster: Cluster):
        self.cluster = cluster
        self.folder = cluster.folder / "registry"
        self.programs = self.folder / "bin"

    def __enter__(self) -> "Registry":
        missing = [program for program in ("podman", "docker-registry") if shutil.which(program) is None]
        assert not missing, f"there is no {' and no '.join(missing)}; scripts/setup test installs them"
        self.programs.mkdir(parents=True)
        for name, text in SETTINGS.items():
            (self.folder / name).write_text(text.format(folder=self.folder, port=PORT))
        docker = self.programs / "docker"
        docker.write_text(DOCKER.format(script=shlex.quote(SCRIPT), cluster=self.cluster.folder, folder=self.folder))
        docker.chmod(0o755)
        words = [SCRIPT, "exec", "--dir", str(self.cluster.folder), "--", "docker-registry", "serve", str(self.folder / "registry.yaml")]
        with open(self.cluster.folder / "logs/registry.log", "ab") as log:
            self.server = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)  # pylint: disable=consider-using-with
        self.cluster.wait_until_listening("127.0.0.1", PORT)
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.kill_inside("docker-registry")
        self.server.wait(END_SECONDS_MAX)
        shutil.rmtree(self.folder)
