"""The fields about a job's life, with a container whose actions a test chooses."""

import json

from harness.jobs import Job, a_job, a_template, actor, an_actor_job
from harness.waiting import always, eventually


def test_a_job_of_any_container_succeeds_when_all_its_ranks_do(kube):
    job = Job.apply(kube, an_actor_job("plain", "print", "hello", "exit", "0"))
    kube.kubectl("wait", "--for=condition=Complete", "--timeout=120s", "trainingjob/plain")
    status = job.status()
    assert status["phase"] == "Succeeded"
    assert status["attempt"] == 1
    assert [kube.logs(pod["metadata"]["name"]) for pod in job.pods()] == ["hello\n", "hello\n"]


def test_pods_have_the_rank_environment_and_find_rank_0_by_name(kube):
    job = Job.apply(kube, an_actor_job("ranks", "when", "RANK=0", "print", "first", "when", "RANK=1", "print", "second",
                                       "when", "WORLD_SIZE=2", "print", "of two"))
    job.wait_for_phase("Succeeded")
    pods = job.pods(1)
    assert [kube.logs(pod["metadata"]["name"]) for pod in pods] == ["first\nof two\n", "second\nof two\n"]
    environment = {e["name"]: e.get("value") for e in pods[1]["spec"]["containers"][0]["env"]}
    service = pods[0]["spec"]["subdomain"]
    assert environment["MASTER_ADDR"].startswith(f"{pods[0]['metadata']['name']}.{service}.{kube.namespace}")


def test_kubectl_shows_a_job_in_one_line(kube):
    Job.apply(kube, an_actor_job("line", "wait")).wait_for_phase("Running")
    header, line = kube.kubectl("get", "tj").splitlines()
    assert header.split() == ["NAME", "PHASE", "READY", "STEP", "LOSS", "CHECKPOINT", "RESTARTS", "AGE"]
    assert line.split()[:3] == ["line", "Running", "2/2"]


def test_a_failed_rank_restarts_the_group_and_its_log_stays(kube):
    job = Job.apply(kube, an_actor_job(
        "flaky", "print", "working", "when", "RANK=1", "message", "disk on fire", "when", "TRAINYARD_ATTEMPT=2", "exit", "0",
        "when", "RANK=1", "exit", "7", "sleep", "60"))
    status = job.wait_for_phase("Succeeded")
    attempt = status["attempts"][0]
    assert (attempt["cause"], attempt["rank"], attempt["exitCode"]) == ("Application", 1, 7)
    assert "disk on fire" in attempt["message"]
    assert status["restarts"]["application"] == 1
    assert kube.logs(attempt["pod"]) == "working\n"


def test_a_job_fails_when_its_budget_of_restarts_is_spent(kube):
    job = Job.apply(kube, an_actor_job("hopeless", "exit", "5", replicas=1, restart={"application": {"max": 1}}))
    kube.kubectl("wait", "--for=condition=Failed", "--timeout=120s", "trainingjob/hopeless")
    status = job.status()
    assert status["attempt"] == 2
    assert "5" in status["message"]


def test_exit_93_ends_a_job_at_once(kube):
    job = Job.apply(kube, an_actor_job("final", "message", "the data is not there", "exit", "93", replicas=1))
    status = job.wait_for_phase("Failed")
    assert status["attempt"] == 1
    assert "the data is not there" in status["message"]


def test_suspend_removes_the_pods_and_resume_brings_a_new_attempt(kube):
    job = Job.apply(kube, an_actor_job("pausing", "wait"))
    job.wait_for_phase("Running")
    kube.kubectl("patch", "tj", "pausing", "--type=merge", "-p", json.dumps({"spec": {"suspend": True}}))
    job.wait_for_phase("Suspended")
    eventually("the pods are gone", job.pods, lambda pods: pods == [])  # Their containers have ended; the kubelet takes a moment more.
    kube.kubectl("patch", "tj", "pausing", "--type=merge", "-p", json.dumps({"spec": {"suspend": False}}))
    job.wait_for_attempt(2)
    status = job.wait_for_phase("Running")
    assert status["restarts"] == {"application": 0, "infrastructure": 0}


def test_a_job_applied_suspended_has_no_pods(kube):
    job = Job.apply(kube, an_actor_job("parked", "wait", suspend=True))
    job.wait_for_phase("Suspended")
    always("no pods", job.pods, lambda pods: pods == [], for_seconds=2)


def test_deleting_a_job_leaves_nothing_behind(kube):
    job = Job.apply(kube, an_actor_job("gone", "wait"))
    job.wait_for_phase("Running")
    job.delete()
    eventually("pods and service are gone", lambda: kube.list("pods") + job.services(), lambda left: left == [])


def test_a_finished_job_is_deleted_after_its_time_to_live(kube):
    job = Job.apply(kube, an_actor_job("fading", "exit", "0", ttlSecondsAfterFinished=3))
    job.wait_for("success seen, or deletion", lambda s: s.get("phase") in ("Succeeded", None))
    eventually("the job is gone", job.read, lambda read: read is None)
    eventually("its pods are gone", lambda: kube.list("pods"), lambda pods: pods == [])


def test_the_deadline_ends_a_job_that_still_runs(kube):
    job = Job.apply(kube, an_actor_job("late", "wait", activeDeadlineSeconds=5))
    status = job.wait_for_phase("Failed")
    assert status["reason"] == "DeadlineExceeded"
    eventually("no pod runs any more", job.pods, lambda pods: all(p["status"]["phase"] != "Running" for p in pods))


def test_clean_pods_decides_which_pods_stay(kube):
    # Rank 0 fails for good while rank 1 still runs.
    steps = ("when", "RANK=0", "exit", "93", "wait")
    jobs = {value: Job.apply(kube, an_actor_job(f"clean-{value.lower()}", *steps, cleanPods=value)) for value in ("None", "Running", "All")}
    for job in jobs.values():
        job.wait_for_phase("Failed")

    def ranks_left(job: Job) -> list[str]:
        return [pod["metadata"]["labels"]["trainyard.dev/rank"] for pod in job.pods()]

    for value in ("None", "Running", "All"):
        eventually(f"{value}: the failed rank's pod stays, the one that still runs goes", lambda: ranks_left(jobs[value]), lambda r: r == ["0"])


def test_a_sidecar_does_not_keep_a_job_alive(kube):
    template = a_template(actor("sleep", "1", "exit", "0"), actor("wait", name="sidecar"))
    job = Job.apply(kube, a_job("accompanied", template=template, cleanPods="Running"))
    job.wait_for_phase("Succeeded")
    eventually("no pod runs any more", job.pods, lambda pods: all(p["status"]["phase"] != "Running" for p in pods))


def test_a_job_deleted_and_applied_again_at_once_gets_pods_of_its_own(kube):
    manifest = an_actor_job("again", "linger", "10", "wait", grace_seconds=15)
    job = Job.apply(kube, manifest)
    first = {pod["metadata"]["uid"] for pod in job.wait_for_attempt(1)}
    job.delete("--wait=true", "--cascade=background")
    job = Job.apply(kube, manifest)
    uid = job.read()["metadata"]["uid"]

    def own_pods() -> list[dict]:
        return [pod for pod in kube.list("pods") if pod["metadata"]["ownerReferences"][0]["uid"] == uid]

    pods = eventually("the new job's pods run beside the old ones", own_pods,
                      lambda pods: len(pods) == 2 and all(p["status"]["phase"] == "Running" for p in pods))
    assert not first & {pod["metadata"]["uid"] for pod in pods}
    assert job.status()["attempt"] == 1


def test_a_new_attempt_forms_while_rank_0s_old_pod_ignores_sigterm(kube):
    # Rank 1 fails; rank 0's pod of attempt 1 then lingers for 60 seconds.
    job = Job.apply(kube, an_actor_job(
        "stubborn", "linger", "60", "when", "TRAINYARD_ATTEMPT=2", "sleep", "1", "when", "TRAINYARD_ATTEMPT=2", "exit", "0",
        "when", "RANK=1", "sleep", "2", "when", "RANK=1", "exit", "1", "wait", grace_seconds=60))
    status = job.wait_for_phase("Succeeded", within=50)
    assert status["attempt"] == 2
    old = kube.get("pods", job.pod_name(1, 0))
    assert old["status"]["phase"] == "Running" and "deletionTimestamp" in old["metadata"], "the old pod was to linger all the while"
