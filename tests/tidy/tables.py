"""The tables of what the layout's rules allow and forbid, each entry with its reason. rules.py applies them."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Arrow:
    why: str
    only: tuple[str, ...] = ()  # The folders to which it leads; none: to all of the top folder.
    is_link: bool = False  # It is a link alone: nothing is included.
    only_from: tuple[str, ...] = ()  # The folders where it begins, with those below them; none: all of the top folder.


# Which top folder may include and link which other one. The test also names an arrow that nothing needs any more.
ARROWS = {
    ("api", "common"): Arrow("Results, clocks, durations and near words."),
    ("operator", "common"): Arrow("Results, clocks, logging and backoff."),
    ("operator", "api"): Arrow("It reconciles TrainingJobs."),
    ("local", "common"): Arrow("Results, clocks, logging and child programs."),
    ("local", "api"): Arrow("It admits TrainingJobs as a server does."),
    ("local", "operator"): Arrow("It stands in for the API server, and runs the operator's own controller on it.",
                                 ("operator/kube", "operator/manager", "operator/manifest")),
    ("storage", "common"): Arrow("Results, clocks, backoff and logging."),
    ("checkpoint", "common"): Arrow("Results, clocks, logging and threads."),
    ("checkpoint", "api"): Arrow("The spec says how many checkpoints are kept, and the worker's exit codes are the contract's."),
    ("checkpoint", "storage"): Arrow("Checkpoints and snapshots lie in a store."),
    ("worker", "common"): Arrow("Results, clocks and logging."),
    ("worker", "api"): Arrow("A rank reads its job's training spec, and launcher and operator keep one contract."),
    ("worker", "checkpoint"): Arrow("It saves and restores checkpoints, and takes snapshots."),
    ("worker", "include"): Arrow("It defines what the public headers declare."),
    ("worker", "storage"): Arrow("Checkpoints, snapshots and data lie in a store."),
    ("cli", "common"): Arrow("Results, clocks, durations and logging."),
    ("cli", "api"): Arrow("validate, render and run read TrainingJobs."),
    ("cli", "operator"): Arrow("render and logs know what is planned for a job, and the way to a server.",
                               ("operator/kube", "operator/manifest", "operator/plan")),
    ("cli", "local"): Arrow("run is a cluster on this machine."),
    ("cli", "storage"): Arrow("checkpoints and snapshots read a store."),
    ("cli", "checkpoint"): Arrow("checkpoints and snapshots list, verify, export and remove what the worker saved."),
    ("bench", "common"): Arrow("Clocks and results."),
    ("bench", "include"): Arrow("bench/worker is a program with a model of its own."),
    ("bench", "operator"): Arrow("bench/line is a client of the API server.", ("operator/kube",)),
    ("bench", "storage"): Arrow("bench/storage writes to a store."),
    ("bench", "tests"): Arrow("bench/line starts the operator, a server and kubelets as the integration tests do.",
                              ("tests/builders", "tests/cluster", "tests/integration")),
    ("bench", "worker"): Arrow("bench/storage saves as ranks do.", ("worker/checkpoint", "worker/dist", "worker/rank"),
                               only_from=("bench/storage",)),
    ("tests", "api"): Arrow("Tests see what they test."),
    ("tests", "checkpoint"): Arrow("Tests see what they test."),
    ("tests", "cli"): Arrow("Tests see what they test."),
    ("tests", "common"): Arrow("Tests see what they test."),
    ("tests", "examples"): Arrow("The own model of the examples also trains on a device."),
    ("tests", "include"): Arrow("Tests see what they test."),
    ("tests", "local"): Arrow("Tests see what they test, and tests of the operator run on the server in memory."),
    ("tests", "operator"): Arrow("Tests see what they test."),
    ("tests", "storage"): Arrow("Tests see what they test."),
    ("tests", "worker"): Arrow("Tests see what they test. pages_test compares a page with the series that a launcher serves, and secrets_test looks for "
                               "secrets in what a rank says.", only_from=("tests/worker", "tests/chart", "tests/checkpoint/run")),
    ("examples", "include"): Arrow("A program of one's own includes the public headers alone."),
    ("examples", "worker"): Arrow("It links the library that is installed, and includes nothing of it.", ("worker/package",), is_link=True),
}

# The folders whose targets may link torch and include its headers. tests/tidy compiles the worker's headers alone.
TORCH_USERS = ("include/trainyard/", "worker/", "tests/worker/", "tests/tidy/", "bench/storage/", "bench/worker/", "examples/own-model/")

# The libraries under worker/ without torch.
TORCH_FREE = {
    "trainyard_rank": "A launcher and a clean-up pod say the same words as a rank.",
    "trainyard_launcher": "It runs in every pod, also beside a program that brings a torch of its own.",
    "trainyard_logs": "Its files are bytes, and its tests run under tsan.",
    "trainyard_averaging": "Two threads share its state, and its tests run under tsan.",
    "trainyard_clean_up": "It runs in a pod that starts fast and holds no torch.",
}

# Which folders only decide, and which other folders they may include.
PURE = ("operator/plan", "operator/manifest")
SEEN_BY_PURE = ("operator/resource", "api", "common")

# Headers that the folders of PURE never include.
NO_PLAN_HEADERS = {
    "common/child_program.hpp": "it starts processes",
    "common/file_descriptor.hpp": "it holds files",
    "common/logging.hpp": "it logs",
    "common/parallel.hpp": "it starts threads",
    **dict.fromkeys(("thread", "mutex", "condition_variable", "future"), "a plan has no threads"),
    **dict.fromkeys(("fstream", "iostream", "filesystem"), "a plan reads and writes nothing"),
    "random": "a plan is the same for the same state",
}


@dataclasses.dataclass(frozen=True)
class Tables:
    arrows: dict[tuple[str, str], Arrow]
    torch_users: tuple[str, ...]
    torch_free: dict[str, str]
    no_plan_headers: dict[str, str]
    pure: tuple[str, ...]
    seen_by_pure: tuple[str, ...]


TABLES = Tables(ARROWS, TORCH_USERS, TORCH_FREE, NO_PLAN_HEADERS, PURE, SEEN_BY_PURE)
