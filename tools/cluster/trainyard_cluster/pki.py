"""The certificates and kubeconfigs of one cluster, made by openssl at each start."""

import base64
import json
import subprocess
from pathlib import Path

from .failure import ClusterError

CURVE = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
VALID_DAYS = "365"
ADMIN_TOKEN = "admin-token"
NOBODY_TOKEN = "nobody-token"


class Pki:
    """A certificate authority in `folder`, with the certificates that it has signed: NAME.crt and NAME.key."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True)
        _openssl("req", "-x509", *CURVE, "-days", VALID_DAYS, "-subj", "/CN=trainyard-test-ca",
                 "-keyout", self.key("ca"), "-out", self.certificate("ca"))
        _openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", self.key("service-account"))
        _openssl("pkey", "-in", self.key("service-account"), "-pubout", "-out", folder / "service-account.pub")
        # For clients that have no certificate: kube-apiserver's token file is token,user,uid,"groups".
        (folder / "tokens.csv").write_text(
            f'{ADMIN_TOKEN},token-admin,1,"system:masters"\n{NOBODY_TOKEN},nobody,2,""\n')

    def certificate(self, name: str) -> Path:
        return self.folder / f"{name}.crt"

    def key(self, name: str) -> Path:
        return self.folder / f"{name}.key"

    def sign(self, name: str, subject: str, alternative_names: tuple[str, ...] = ()) -> None:
        """Makes a key and a certificate for servers and clients. `alternative_names` have openssl's form: "DNS:x", "IP:y"."""
        extensions = ["-addext", "extendedKeyUsage=serverAuth,clientAuth", "-addext", "basicConstraints=critical,CA:FALSE"]
        if alternative_names:
            extensions += ["-addext", "subjectAltName=" + ",".join(alternative_names)]
        _openssl("req", "-x509", *CURVE, "-days", VALID_DAYS, "-subj", subject, *extensions,
                 "-CA", self.certificate("ca"), "-CAkey", self.key("ca"),
                 "-keyout", self.key(name), "-out", self.certificate(name))

    def write_kubeconfig(self, path: Path, server: str, *, certificate: str = "", token: str = "") -> None:
        """Writes a self-contained kubeconfig for one user, who has either a certificate signed here or a token. JSON is also YAML."""
        user = {"token": token} if token else {
            "client-certificate-data": _base64(self.certificate(certificate)), "client-key-data": _base64(self.key(certificate))}
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "trainyard",
            "clusters": [{"name": "trainyard",
                          "cluster": {"server": server, "certificate-authority-data": _base64(self.certificate("ca"))}}],
            "users": [{"name": "trainyard", "user": user}],
            "contexts": [{"name": "trainyard", "context": {"cluster": "trainyard", "user": "trainyard"}}],
        }, indent=2) + "\n")
        path.chmod(0o600)


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def _openssl(*arguments: object) -> None:
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(f"openssl {arguments[0]} failed: {done.stderr.strip()}")
