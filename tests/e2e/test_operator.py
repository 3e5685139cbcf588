"""Training continues without the operator, and a job ends in the same way whenever the operator dies."""

import time

import pytest
from harness.jobs import Job, an_actor_job
from harness.waiting import eventually

pytestmark = pytest.mark.disturbs

# Rank 1 fails once; then both ranks succeed.
ONE_RESTART = ("when", "TRAINYARD_ATTEMPT=1", "sleep", "4", "when", "TRAINYARD_ATTEMPT=1", "exit", "3", "sleep", "4", "exit", "0")


@pytest.fixture(autouse=True)
def _both_operators_run(installation):
    installation.wait_until_settled()
    yield


def expect_one_restart_and_success(job: Job) -> None:
    status = job.wait_for_phase("Succeeded", within=240)
    assert status["attempt"] == 2
    assert status["restarts"]["application"] == 1
    pods = job.pods()
    names = [pod["metadata"]["name"] for pod in pods]
    assert len(names) == len(set(names)) and set(names) <= {job.pod_name(attempt, rank) for attempt in (1, 2) for rank in (0, 1)}


def test_killed_while_a_job_is_created(kube, installation):
    job = Job.apply(kube, an_actor_job("orphan", *ONE_RESTART))
    installation.kill_all()
    expect_one_restart_and_success(job)


def test_killed_while_a_job_restarts(kube, installation):
    job = Job.apply(kube, an_actor_job("halfway", *ONE_RESTART))
    job.wait_for_attempt(1)
    eventually("a rank has failed", lambda: job.pods(1), lambda pods: any(p["status"]["phase"] == "Failed" for p in pods))
    installation.kill_all()
    expect_one_restart_and_success(job)


def test_killed_while_a_job_finishes(kube, installation):
    job = Job.apply(kube, an_actor_job("nearly", *ONE_RESTART))
    job.wait_for_attempt(2)
    eventually("a rank has succeeded", lambda: job.pods(2), lambda pods: any(p["status"]["phase"] == "Succeeded" for p in pods))
    installation.kill_all()
    expect_one_restart_and_success(job)


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_the_standby_acts_when_the_leader_is(kube, installation, cluster, how):
    leader = installation.wait_until_led()
    identity = installation.holder()
    if how == "killed":
        seen = cluster.run_inside("sh", "-c", KILL_POD_PROCESS, leader).splitlines()
        assert seen.count(f"killed {leader}") == 1, f"one process was to be killed: {seen}"
    else:
        installation.kube.kubectl("delete", "pod", leader, "--wait=false")
    begin = time.monotonic()
    job = Job.apply(kube, an_actor_job("handed-over", "exit", "0"))
    job.wait_for("attempt 1", lambda s: s.get("attempt") == 1, within=30)
    print(f"leader {how}: a new job was taken up after {time.monotonic() - begin:.2f} s")
    job.wait_for_phase("Succeeded")
    assert installation.holder() not in ("", identity), "another process leads"


# Kills the operator whose host name is the pod's name, the only trace of a pod in its processes. Prints the names that it saw.
KILL_POD_PROCESS = """
for p in /proc/[0-9]*; do
  [ "$(cat $p/comm 2>/dev/null)" = trainyard-opera ] || continue
  name=$(tr '\\0' '\\n' <$p/environ | sed -n 's/^HOSTNAME=//p')
  if [ "$name" = "$0" ]; then kill -9 ${p#/proc/} && echo killed $name; else echo left $name; fi
done
"""
