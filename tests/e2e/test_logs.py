"""`trainyard logs` and `trainyard status` against a cluster: the same commands as for a run on this machine."""

import json

from harness.jobs import Job, an_actor_job
from harness.program import trainyard

# Each rank says who it is. Both fail in attempt 1; attempt 2 pauses between two lines.
STEPS = ("when", "RANK=0", "print", "rank 0", "when", "RANK=1", "print", "rank 1", "when", "TRAINYARD_ATTEMPT=2", "print", "again",
         "sleep", "3", "when", "TRAINYARD_ATTEMPT=1", "exit", "3", "print", "the end")


def test_logs_are_those_of_a_rank_and_an_attempt_and_followed_to_their_end(kube):
    job = Job.apply(kube, an_actor_job("talker", *STEPS))
    job.wait_for_attempt(2)
    followed = trainyard(kube, "logs", "talker", "-f")
    assert (followed.returncode, followed.stdout) == (0, "rank 0\nagain\nthe end\n"), followed.stderr
    job.wait_for_phase("Succeeded")
    culprit = job.status()["attempts"][0]["rank"]
    told = trainyard(kube, "status", "talker", "-o", "json")
    assert told.returncode == 0 and json.loads(told.stdout)["attempts"][0]["rank"] == culprit, told.stderr
    assert trainyard(kube, "logs", "talker", "--attempt", 1, "--rank", culprit).stdout == f"rank {culprit}\n"
    assert trainyard(kube, "logs", "talker", "--rank", 1).stdout == "rank 1\nagain\nthe end\n"


def test_logs_say_what_there_is_instead_of_what_was_asked_for(kube):
    Job.apply(kube, an_actor_job("small", "print", "hello")).wait_for_phase("Succeeded")
    nobody = trainyard(kube, "logs", "small", "--rank", 7)
    assert nobody.returncode == 1 and "has 2 pods" in nobody.stderr
    unknown = trainyard(kube, "logs", "no-such-job")
    assert unknown.returncode == 1 and 'trainingjobs.trainyard.dev "no-such-job" not found' in unknown.stderr
