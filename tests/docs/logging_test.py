#!/usr/bin/env python3
"""The Python of docs/logging.md finds the lines that no later attempt supersedes. Usage: logging_test.py SOURCE_FOLDER"""

import json
import pathlib
import re
import sys
import tempfile
import unittest

PAGE = pathlib.Path(sys.argv[1]).resolve() / "docs/logging.md"


def line(attempt: int, kind: str, step: int) -> str:
    return json.dumps({"attempt": attempt, "step": step, "epoch": 1, "time": "", "kind": kind, "metrics": {}}) + "\n"


class LoggingPage(unittest.TestCase):
    def test_its_python_drops_the_steps_that_a_later_attempt_repeats(self):
        code = re.search(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL).group(1)
        with tempfile.TemporaryDirectory() as folder:
            files = {"metrics.0000000001.0001-000001.jsonl": line(1, "start", 0) + line(1, "steps", 1) + line(1, "steps", 2),
                     "metrics.0000000001.0001-000002.jsonl": line(1, "steps", 3),
                     "metrics.0000000009.0002-000001.jsonl": line(2, "start", 2) + line(2, "steps", 3) + line(2, "validation", 3)}
            for name, text in files.items():
                (pathlib.Path(folder) / name).write_text(text)
            names: dict = {}
            exec(code.replace("/tmp/logs", folder), names)
            found = [(each["attempt"], each["kind"], each["step"]) for each in names["current"]]
        self.assertEqual(found, [(1, "steps", 1), (1, "steps", 2), (2, "steps", 3), (2, "validation", 3)])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
