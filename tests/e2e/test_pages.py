"""docs/install.md, scheduling.md, security.md, metrics.md and troubleshooting.md, followed on the cluster of all tests."""

import json
import re
import shlex
import subprocess

import pytest
from harness.documents import USE_CLUSTER, commands_of, follow, spans_of
from harness.jobs import Job, a_job, a_template, an_actor_job, synthetic_training, worker
from harness.program import PROGRAM
from harness.waiting import eventually


def pod_uids(job: Job) -> list[str]:
    return [pod["metadata"]["uid"] for pod in job.pods()]


def log_level(installation) -> str:
    """The value from all operators, which must agree."""
    levels = {argument.removeprefix("--log-level=") for pod in installation.pods()
              for argument in pod["spec"]["containers"][0]["args"] if argument.startswith("--log-level=")}
    assert len(levels) == 1, levels
    return levels.pop()


@pytest.mark.disturbs
def test_the_page_on_installing_can_be_followed_and_a_running_job_notices_only_what_it_says(kube, cluster, installation):
    install, upgrade, roll_back, uninstall, remove = (USE_CLUSTER + block for block in commands_of("docs/install.md"))
    install = "registry=localhost\n" + install  # As the page says of this cluster.
    job = Job.apply(kube, an_actor_job("through", "wait"))
    job.wait_for_attempt(1)
    pods = pod_uids(job)
    try:
        assert "successfully rolled out" in follow(cluster.folder, install)
        assert "Upgrade complete" in follow(cluster.folder, upgrade)
        assert log_level(installation) == "debug"
        follow(cluster.folder, roll_back)
        assert log_level(installation) == "info"
        follow(cluster.folder, uninstall)
        assert not installation.pods()
        assert pod_uids(job) == pods
        # No operator runs when this rank is lost.
        kube.kubectl("delete", "pod", job.pod_name(1, 1), "--wait=true")
        assert job.status()["attempt"] == 1
        follow(cluster.folder, install)
        assert job.wait_for("the loss is seen", lambda status: status["attempt"] == 2)["attempts"][0]["cause"] == "Deleted"
        follow(cluster.folder, remove)
        assert kube.kubectl("get", "crd", "trainingjobs.trainyard.dev", "--ignore-not-found") == ""
    finally:
        # Restores the values of the harness.
        installation.helm("uninstall", "trainyard", "--ignore-not-found", "--wait")
        installation.install()
        installation.wait_until_settled()


@pytest.mark.disturbs
def test_the_page_on_scheduling_holds_a_job_back_and_lets_it_run(cluster):
    (commands,) = commands_of("docs/scheduling.md")
    said = follow(cluster.folder, USE_CLUSTER + commands)
    assert said.count("trainingjob.trainyard.dev/smoke condition met") == 2  # Suspended, then Complete


def test_the_page_on_security_shows_what_the_operator_may_do(cluster):
    (commands,) = commands_of("docs/security.md")
    said = follow(cluster.folder, USE_CLUSTER + commands)
    assert "trainingjobs.trainyard.dev/status" in said
    assert "secrets" not in said


def test_the_page_on_metrics_shows_the_operators_series(cluster):
    (commands,) = commands_of("docs/metrics.md")
    assert "trainyard_operator_reconciles_total" in follow(cluster.folder, USE_CLUSTER + commands)


def filled_in(command: str, words: dict[str, str]) -> str:
    """The command with the words that a reader of the page puts in place of those in capitals."""
    for placeholder, word in words.items():
        command = re.sub(rf"(?<![\w-]){re.escape(placeholder)}(?!\w)", word, command)
    return command


def train_here(folder) -> str:
    """The checkpoint.uri of a short training on this machine, with a checkpoint and snapshots."""
    uri = f"file://{folder}/checkpoints"
    template = a_template(worker(volumeMounts=[{"name": "here", "mountPath": str(folder)}]),
                          volumes=({"name": "here", "hostPath": {"path": str(folder)}},))
    job = a_job("short", replicas=1, template=template, checkpoint={"uri": uri},
                training=synthetic_training(max_steps=4, snapshots={"every": {"steps": 2}}))
    (folder / "short.yaml").write_text(json.dumps(job))
    done = subprocess.run([PROGRAM, "run", "short.yaml"], cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return uri


def pod_of_a_clean_up_that_waits(kube) -> str:
    """The name of the pod that would remove the checkpoints of the job "kept", whose storage nobody can reach."""
    job = Job.apply(kube, a_job("kept", replicas=1, training=synthetic_training(max_steps=4), checkpoint={
        "uri": "s3://models/kept", "onDelete": "Delete", "credentialsSecret": "s3-credentials", "s3": {"endpoint": "http://127.0.0.1:1"}}))
    name = job.wait_for_attempt(1)[0]["metadata"]["name"].removesuffix("-1-0") + "-cleanup"
    job.delete("--wait=false")
    eventually("the clean-up has begun", lambda: kube.try_kubectl("logs", name).returncode, lambda code: code == 0)
    return name


def test_every_command_of_the_page_on_troubleshooting_answers(kube, cluster, tmp_path):
    page = "docs/troubleshooting.md"
    # Rank 1 fails once. Only its pod of attempt 1 stays.
    job = Job.apply(kube, an_actor_job("held", "print", "here", "when", "RANK=0", "wait", "when", "TRAINYARD_ATTEMPT=1", "exit", "3", "wait"))
    kube.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}})
    uri = train_here(tmp_path)
    pod = job.wait_for_attempt(2)[0]
    words = {"NAME": job.name, "POD": pod["metadata"]["name"], "NODE": pod["spec"]["nodeName"], "R": "1", "A": "1", "CLAIM": "data", "URI": uri,
             "job.yaml": "examples/smoke.yaml"}
    kubeconfig = tmp_path / "kubeconfig"
    use = (USE_CLUSTER + f"kubectl config view --raw >{kubeconfig}; export KUBECONFIG={kubeconfig} PATH={shlex.quote(str(PROGRAM.parent))}:$PATH\n"
           f"kubectl config set-context --current --namespace={kube.namespace} >/dev/null\n")

    (first_look,) = commands_of(page)
    said = follow(cluster.folder, use + filled_in(first_look, words))
    assert "1 Application pod 1: " in said
    assert "default/short   final" in said

    others = {"kubectl logs NAME-XXXX-cleanup": {"NAME-XXXX-cleanup": pod_of_a_clean_up_that_waits(kube)},
              "kubectl wait --for=condition=TYPE tj/NAME": {"TYPE": "Complete", "NAME": Job.apply(kube, an_actor_job("done", "exit", "0")).name}}
    commands = spans_of(page, "kubectl", "trainyard")
    assert set(others) < set(commands)
    follow(cluster.folder, use + "\n".join(filled_in(command, others.get(command, words)) for command in commands))
    (let_go,) = [block for block in commands_of("docs/checkpoints.md") if "finalizers" in block]
    follow(cluster.folder, use + filled_in(let_go, {"trial-17": "kept"}))
    eventually("the job is gone", Job(kube, "kept").read, lambda read: read is None)
