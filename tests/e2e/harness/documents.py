"""The commands in README.md and docs/, run as a reader runs them."""

import os
import re
import subprocess
from pathlib import Path

from harness.cluster import REPOSITORY, SCRIPT

STEP_SECONDS_MAX = 1800
USE_CLUSTER = f'eval "$({SCRIPT} env)"\n'  # Before commands that want kubectl and helm.


def blocks_of(document: str, mark: str) -> list[str]:
    """The commands of the document's first code block that has `mark`, and of the blocks that follow it."""
    blocks = re.findall(r"^```\w*\n(.*?)^```$", (REPOSITORY / document).read_text(), re.DOTALL | re.MULTILINE)
    first = next(index for index, block in enumerate(blocks) if mark in block)
    return blocks[first:]


def commands_of(document: str, language: str = "sh") -> list[str]:
    """All code blocks of the document in this language. Those in "sh" are commands."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (REPOSITORY / document).read_text(), re.DOTALL | re.MULTILINE)


def filled_in(command: str, words: dict[str, str]) -> str:
    """The command with the words that a reader of the page puts in place of those in capitals."""
    for placeholder, word in words.items():
        command = re.sub(rf"(?<![\w-]){re.escape(placeholder)}(?!\w)", word, command)
    return command


def spans_of(document: str, *programs: str) -> list[str]:
    """The commands of these programs in the document's sentences and tables, each once. One that only names a command, such as `trainyard run`,
    asks for its help instead."""
    text = re.sub(r"^```.*?^```$", "", (REPOSITORY / document).read_text(), flags=re.DOTALL | re.MULTILINE)
    spans = dict.fromkeys(re.findall(rf"`((?:{'|'.join(programs)}) [^`]*)`", text))
    return [re.sub(r"^(trainyard(?: [a-z]+)+)(?: -\w)?$", r"\1 --help", span) for span in spans]


def follow(folder: Path, commands: str) -> str:
    """The output of the commands, which a shell runs in the repository's folder until one fails."""
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", commands], cwd=REPOSITORY, capture_output=True, text=True, check=False,
                          timeout=STEP_SECONDS_MAX, env={**os.environ, "TRAINYARD_CLUSTER": str(folder)})
    assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"
    return done.stdout
