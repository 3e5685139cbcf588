"""The pages of docs/ whose commands need a cluster, followed on the cluster of all tests."""

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from harness.documents import USE_CLUSTER, commands_of, filled_in, follow, spans_of
from harness.jobs import Job, a_job, a_template, an_actor_job, synthetic_training, worker
from harness.kubernetes import JOBS
from harness.program import PROGRAM
from harness.registry import Registry
from harness.waiting import eventually


def pod_uids(job: Job) -> list[str]:
    return [pod["metadata"]["uid"] for pod in job.pods()]


def log_level(installation) -> str:
    """The value from all operators, which must agree."""
    levels = {argument.removeprefix("--log-level=") for pod in installation.pods()
              for argument in pod["spec"]["containers"][0]["args"] if argument.startswith("--log-level=")}
    assert len(levels) == 1, levels
    return levels.pop()


@pytest.fixture(name="registry")
def _registry(cluster):
    if os.environ.get("TRAINYARD_E2E_PRESET", "release") != "release":
        pytest.skip("the pages build the images from build/release")
    with Registry(cluster) as registry:
        yield registry


def with_programs(*folders) -> str:
    """The command that puts the programs of these folders before all others."""
    return f"export PATH={':'.join(shlex.quote(str(folder)) for folder in folders)}:$PATH\n"


def in_namespace(kube, folder: Path) -> str:
    """The commands after which kubectl and trainyard use the test's namespace."""
    kubeconfig = folder / "kubeconfig"
    return (f"kubectl config view --raw >{kubeconfig}; export KUBECONFIG={kubeconfig}\n"
            f"kubectl config set-context --current --namespace={kube.namespace} >/dev/null\n")


def other_jobs(kube) -> list[str]:
    return [job["metadata"]["namespace"] for job in kube.read(f"{JOBS}/trainingjobs")["items"] if job["metadata"]["namespace"] != kube.namespace]


@pytest.mark.disturbs
def test_the_page_on_installing_can_be_followed_and_a_running_job_notices_only_what_it_says(kube, cluster, installation, registry):
    use = USE_CLUSTER + with_programs(registry.programs, PROGRAM.parent)
    push, install, upgrade, roll_back, uninstall, remove = commands_of("docs/install.md")
    validate_all, delete_services = spans_of("docs/install.md", "kubectl")
    (roll_back_to,) = spans_of("docs/install.md", "helm")
    about_jobs = spans_of("docs/install.md", "trainyard")
    job = Job.apply(kube, an_actor_job("through", "wait"))
    job.wait_for_attempt(1)
    pods = pod_uids(job)
    try:
        # In one shell, as the page says.
        said = follow(cluster.folder, use + push.replace("registry.example.com", registry.address) + install)
        assert "successfully rolled out" in said
        assert {pod["spec"]["containers"][0]["image"] for pod in installation.pods()} == {f"{registry.address}/me/trainyard-operator:dev"}
        pulled = Job.apply(kube, a_job("pulled", replicas=1, training=synthetic_training(max_steps=2)))
        pulled.wait_for_phase("Succeeded")
        assert pulled.pods()[0]["spec"]["containers"][0]["image"] == f"{registry.address}/me/trainyard-worker:dev"

        assert "Upgrade complete" in follow(cluster.folder, use + upgrade)
        assert log_level(installation) == "debug"
        follow(cluster.folder, use + roll_back)
        assert log_level(installation) == "info"
        upgraded = installation.revision() - 1
        follow(cluster.folder, use + filled_in(roll_back_to, {"REVISION": str(upgraded)}))
        assert log_level(installation) == "debug"

        service = job.services()[0]["metadata"]["uid"]
        follow(cluster.folder, use + delete_services)
        eventually("the operator makes the Service again", job.services, lambda found: found and found[0]["metadata"]["uid"] != service)
        eventually("the jobs of other tests are gone", lambda: other_jobs(kube), lambda found: not found)
        assert "(TrainingJob through): valid" in follow(cluster.folder, use + validate_all)
        follow(cluster.folder, use + "\n".join(about_jobs))

        follow(cluster.folder, use + uninstall)
        assert not installation.pods()
        assert pod_uids(job) == pods
        # No operator runs when this rank is lost.
        kube.kubectl("delete", "pod", job.pod_name(1, 1), "--wait=true")
        assert job.status()["attempt"] == 1
        follow(cluster.folder, use + "registry=localhost\n" + install)  # As the page says of this cluster.
        assert job.wait_for("the loss is seen", lambda status: status["attempt"] == 2)["attempts"][0]["cause"] == "Deleted"
        follow(cluster.folder, use + remove)
        assert kube.kubectl("get", "crd", "trainingjobs.trainyard.dev", "--ignore-not-found") == ""
    finally:
        # Restores the values of the harness.
        installation.helm("uninstall", "trainyard", "--ignore-not-found", "--wait")
        installation.install()
        installation.wait_until_settled()


# In place of PyTorch's image, which has gigabytes: Debian and its Python, and a torchrun that starts as many processes. The real torchrun gets the
# same variables in tests/docs/python_examples_test.cpp.
FIRST_IMAGE = """
FROM localhost/trainyard-operator:dev
USER 0:0
COPY lib/ /usr/lib/x86_64-linux-gnu/
COPY python3.11/ /usr/local/lib/python3.11/
COPY bin/ torchrun /usr/local/bin/
ENTRYPOINT []
"""
TORCHRUN = """#!/bin/sh
rank=0
while [ $rank -lt $PET_NPROC_PER_NODE ]; do RANK=$rank python3 "$@" & rank=$((rank + 1)); done
wait
"""
TRAIN = """import os, sys
sys.stdout.write(' '.join(('rank', os.environ['RANK'], *sys.argv[1:])) + '\\n')  # in one write: the processes share the log
"""


def make_first_image(folder: Path, name: str) -> str:
    """The commands that make the image in whose place the stand-in comes."""
    folder.mkdir()
    (folder / "Dockerfile").write_text(FIRST_IMAGE)
    (folder / "torchrun").write_text(TORCHRUN)
    (folder / "torchrun").chmod(0o755)
    library = Path("/usr/lib/python3.11")
    for module in (*library.glob("*.py"), *library.glob("encodings/*.py"), *library.glob("collections/*.py")):
        copy = folder / "python3.11" / module.relative_to(library)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(module, copy)
    return (f'docker load --input "$(docker/build operator)"\ndocker/collect {folder} /usr/bin/python3\n'
            f"docker build -t {name} {folder}\n")


@pytest.mark.disturbs
def test_the_page_on_python_runs_a_script_of_ones_own_on_eight_gpus(kube, cluster, registry, tmp_path):
    (commands,) = [block for block in commands_of("docs/python.md") if "docker build" in block]
    dockerfile, job = commands_of("docs/python.md", "dockerfile")[0], commands_of("docs/python.md", "yaml")[0]
    (gpus,) = spans_of("docs/cluster.md", "kubectl patch node")
    here = {"registry.example.com": registry.address}
    (tmp_path / "Dockerfile").write_text(dockerfile)
    (tmp_path / "job.yaml").write_text(filled_in(job, here))
    (tmp_path / "train.py").write_text(TRAIN)
    use = USE_CLUSTER + with_programs(registry.programs, PROGRAM.parent) + in_namespace(kube, tmp_path)
    try:
        follow(cluster.folder, use + make_first_image(tmp_path / "first", dockerfile.split()[1]) + gpus.replace('"4"', '"8"'))
        said = follow(cluster.folder, use + f"cd {tmp_path}\n" + filled_in(commands, here))
        assert [f"rank {rank} --epochs 3" in said.splitlines() for rank in range(8)] == [True] * 8, said
        Job(kube, "my-training").wait_for_phase("Succeeded")
    finally:
        kube.kubectl("patch", "node", "node0", "--subresource=status", "--type=json", "-p",
                     json.dumps([{"op": "remove", "path": "/status/capacity/nvidia.com~1gpu"}]))


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
    use = USE_CLUSTER + with_programs(PROGRAM.parent) + in_namespace(kube, tmp_path)

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


@pytest.mark.parametrize("page", ["docs/extending.md", "docs/python.md", "docs/reference.md"])
def test_every_command_in_the_sentences_of_a_page_answers(kube, cluster, tmp_path, page):
    commands = spans_of(page, "kubectl", "trainyard")
    follow(cluster.folder, USE_CLUSTER + with_programs(PROGRAM.parent) + in_namespace(kube, tmp_path)
           + "\n".join(filled_in(command, {"FILE": "examples/smoke.yaml"}) for command in commands))
