"""Jobs as the tests write them, and a job in the cluster."""

from harness.kubernetes import JOBS, Kubernetes
from harness.waiting import eventually
from trainyard_cluster.tiny_image import ACTOR_IMAGE

ENDED = ("Succeeded", "Failed")


def a_job(name: str, *, replicas: int = 2, restart: dict | None = None, **spec: object) -> dict:
    """A TrainingJob on CPU with short pauses before restarts. Other fields of the spec are passed by their names."""
    restart = {"backoff": {"initial": "200ms", "max": "1s"}, **(restart or {})}
    return {"apiVersion": "trainyard.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name},
            "spec": {"replicas": replicas, "gpusPerPod": 0, "restart": restart, **spec}}


def a_template(*containers: dict, volumes: tuple[dict, ...] = (), grace_seconds: int | None = 1, **pod_spec: object) -> dict:
    """A short grace period, since most containers of tests have nothing to save. None: the operator's default."""
    if grace_seconds is not None:
        pod_spec["terminationGracePeriodSeconds"] = grace_seconds
    return {"spec": {"containers": list(containers), "volumes": list(volumes), **pod_spec}}


def worker(*, environment: dict[str, str] | None = None, **container: object) -> dict:
    """The built worker, with the image that the operator was installed with."""
    return {"name": "worker", "env": [{"name": name, "value": value} for name, value in (environment or {}).items()], **container}


def actor(*steps: str, name: str = "worker", **container: object) -> dict:
    """A container of the tiny image that does `steps` (listed in tools/cluster/actor.c)."""
    return {"name": name, "image": ACTOR_IMAGE, "args": list(steps), **container}


def an_actor_job(name: str, *steps: str, grace_seconds: int = 1, **spec: object) -> dict:
    return a_job(name, template=a_template(actor(*steps), grace_seconds=grace_seconds), **spec)


def synthetic_training(*, max_steps: int, batch_size: int = 16, samples: int = 2048, **fields: object) -> dict:
    """A job's `training` on small synthetic images, for as many epochs as `max_steps` need."""
    return {"model": {"name": "fashion_cnn"}, "data": {"format": "synthetic", "samples": samples}, "batchSize": batch_size,
            "maxSteps": max_steps, "log": {"every": {"steps": 10}}, **fields}


class Job:
    """A job that was applied. Every call reads its present state."""

    def __init__(self, kube: Kubernetes, name: str):
        self.kube = kube
        self.name = name

    @classmethod
    def apply(cls, kube: Kubernetes, manifest: dict) -> "Job":
        kube.apply(manifest)
        return cls(kube, manifest["metadata"]["name"])

    def read(self) -> dict | None:
        return self.kube.get("trainingjobs", self.name, JOBS)

    def status(self) -> dict:
        return (self.read() or {}).get("status", {})

    def condition(self, kind: str) -> dict:
        return next((c for c in self.status().get("conditions", []) if c["type"] == kind), {})

    def pods(self, attempt: int | None = None) -> list[dict]:
        """The pods of one attempt, or of all, sorted by rank."""
        selector = f"trainyard.dev/job={self.name}" + (f",trainyard.dev/attempt={attempt}" if attempt else "")
        return sorted(self.kube.list("pods", selector), key=lambda pod: int(pod["metadata"]["labels"]["trainyard.dev/rank"]))

    def pod_name(self, attempt: int, rank: int) -> str:
        """The name that the pod has or will have."""
        uid = self.read()["metadata"]["uid"]
        return f"{self.name}-{uid[:4]}-{attempt}-{rank}"

    def end_pod(self, attempt: int, rank: int, *command: str) -> None:
        """Runs a command in a pod that ends the pod. The command may be killed with the pod: 137 is no error, either."""
        done = self.kube.try_kubectl("exec", self.pod_name(attempt, rank), "--", *command)
        assert done.returncode in (0, 137), f"{command}: {done.stderr.strip()}"

    def services(self) -> list[dict]:
        return self.kube.list("services", f"trainyard.dev/job={self.name}")

    def wait_for(self, what: str, is_true, *, within: float = 120) -> dict:
        """The first status for which `is_true` holds."""
        return eventually(f"{self.name}: {what}", self.status, is_true, within=within)

    def wait_for_phase(self, *phases: str, within: float = 120) -> dict:
        """The status once the phase is one of these. Fails at once if the job ends in another phase."""
        status = self.wait_for(f"phase {' or '.join(phases)}",
                               lambda s: s.get("phase") in phases or s.get("phase") in ENDED, within=within)
        assert status["phase"] in phases, f"{self.name} ended: {status['phase']}: {status.get('reason')}: {status.get('message')}"
        return status

    def wait_for_attempt(self, attempt: int, *, within: float = 120) -> list[dict]:
        """The attempt's pods, once all of them run."""
        eventually(f"{self.name}: attempt {attempt}", self.status, lambda s: s.get("attempt") == attempt, within=within)
        replicas = self.read()["spec"]["replicas"]
        return eventually(
            f"{self.name}: pods of attempt {attempt} run", lambda: self.pods(attempt),
            lambda pods: len(pods) == replicas and all(p["status"]["phase"] == "Running" for p in pods), within=within)

    def wait_for_checkpoint(self, step: int, *, within: float = 180) -> dict:
        """The status once a checkpoint of at least this step is complete."""
        return self.wait_for(f"a checkpoint at step {step} or later",
                             lambda s: s.get("checkpoint", {}).get("step", 0) >= step, within=within)

    def delete(self, *options: str) -> None:
        self.kube.delete("trainingjob", self.name, *options)
