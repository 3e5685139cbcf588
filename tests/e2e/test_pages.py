"""docs/install.md, docs/scheduling.md, docs/security.md and docs/metrics.md, followed on the cluster of all tests."""

import pytest
from harness.documents import USE_CLUSTER, commands_of, follow
from harness.jobs import Job, an_actor_job


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
