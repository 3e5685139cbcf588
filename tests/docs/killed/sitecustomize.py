"""Python reads this file at its start. When the second checkpoint of rank 0 is about to become complete, the rank is killed in attempt 1, and
asked to stop in attempt 2: one rank alone, and at the same step whatever the machine's pace."""

import fnmatch
import glob
import os
import signal
import sys

SIGNALS = {"1": signal.SIGKILL, "2": signal.SIGTERM}
# The file of a checkpoint that each example makes last, below HOME.
COMPLETE = ["*/torchrun/step-*.pt", "*/lightning/step=*.ckpt", "*/hugging-face/checkpoint-*/complete"]
asked = False


def path_made_by(event: str, arguments: tuple) -> str:
    if event == "os.rename":
        return str(arguments[1])
    return str(arguments[0]) if event == "open" and arguments[1] == "w" else ""


def watch(event: str, arguments: tuple) -> None:
    global asked
    if asked or event not in ("open", "os.rename"):
        return
    path = path_made_by(event, arguments)
    for pattern in (f"{os.environ['HOME']}/{complete}" for complete in COMPLETE):
        if fnmatch.fnmatch(path, pattern) and glob.glob(pattern):
            asked = True
            os.kill(os.getpid(), SIGNALS[os.environ["TRAINYARD_ATTEMPT"]])


if os.environ.get("RANK") == "0" and os.environ.get("TRAINYARD_ATTEMPT") in SIGNALS:
    sys.addaudithook(watch)
