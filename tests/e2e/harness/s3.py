"""A real S3 server (versitygw) over a folder, on the address at which pods reach the node."""

from pathlib import Path

from harness.cluster import TOOLS, Cluster, OwnCluster

PORT = 7070
ACCESS_KEY = "e2e-access-key"
SECRET_KEY = "e2e-secret-key"
REGION = "us-east-1"


class S3Server:
    """The server on the cluster's node. Buckets are folders under `folder`, in which tests can read the objects."""

    def __init__(self, cluster: Cluster):
        self.folder = cluster.folder / "s3"
        self.endpoint = f"http://{cluster.gateway}:{PORT}"

    @classmethod
    def start(cls, cluster: OwnCluster) -> None:
        server = cls(cluster)
        (server.folder / "models").mkdir(parents=True)
        cluster.start_inside(
            TOOLS / "versitygw", "--port", f"{cluster.gateway}:{PORT}", "--region", REGION, "posix", server.folder,
            environment={"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}, log=cluster.folder / "logs/versitygw.log")
        cluster.wait_until_listening(cluster.gateway, PORT)

    def secret(self, name: str = "s3-credentials", *, secret_key: str = SECRET_KEY) -> dict:
        """A Secret with the keys, for a job's checkpoint.credentialsSecret."""
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
                "stringData": {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": secret_key}}

    def checkpoint(self, prefix: str, *, bucket: str = "models", secret: str = "s3-credentials", **fields: object) -> dict:
        """A job's `checkpoint` with a uri on this server."""
        return {"uri": f"s3://{bucket}/{prefix}", "credentialsSecret": secret,
                "s3": {"endpoint": self.endpoint, "region": REGION, "pathStyle": True}, **fields}

    def keys(self, prefix: str) -> list[str]:
        """The names of the objects under a prefix in the bucket models."""
        root = self.folder / "models"
        return sorted(str(path.relative_to(root)) for path in (root / prefix).rglob("*") if path.is_file())
