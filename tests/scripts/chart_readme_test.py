#!/usr/bin/env python3
"""scripts/chart-readme, and the chart's page that it writes. Usage: chart_readme_test.py SOURCE_FOLDER"""

import json
import pathlib
import runpy
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv[1]).resolve()
PROGRAM = SOURCE / "scripts/chart-readme"
CHART = SOURCE / "charts/trainyard"
SCRIPT = runpy.run_path(str(PROGRAM))

VALUES = """# What is pulled.
image:
  # Its name,
  # without a tag.
  name: a/b
  # Which one: x | y.
  tag: ""

# Not of the value below.

# How many.
replicas: 2
"""
ROWS = [("image", "", "What is pulled."), ("image.name", "a/b", "Its name, without a tag."), ("image.tag", '""', "Which one: x | y."),
        ("replicas", "2", "How many.")]


def schema_paths(schema: dict, path: str = "") -> set[str]:
    """Every property that a closed schema names, and those that its properties name."""
    if schema.get("additionalProperties") is not False:
        return set()
    names = {f"{path}{name}": part for name, part in schema.get("properties", {}).items()}
    return set(names).union(*(schema_paths(part, f"{name}.") for name, part in names.items()))


class ChartReadme(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.chart = pathlib.Path(folder.name)
        (self.chart / "values.yaml").write_text(VALUES)

    def run_script(self, *words: str) -> subprocess.CompletedProcess:
        return subprocess.run([PROGRAM, "--chart", self.chart, *words], capture_output=True, text=True, check=False)

    def test_each_value_has_its_comment_as_its_meaning(self) -> None:
        self.assertEqual(SCRIPT["read_values"](VALUES), ROWS)

    def test_a_line_of_the_page_keeps_a_bar_inside_its_cell(self) -> None:
        self.assertIn('| `image.tag` | `""` | Which one: x \\| y. |\n', SCRIPT["make_page"](ROWS))

    def test_a_value_without_a_comment_is_refused_by_name(self) -> None:
        (self.chart / "values.yaml").write_text(VALUES.replace("# How many.\n", ""))
        done = self.run_script()
        self.assertEqual(done.returncode, 1)
        self.assertIn("line 11: replicas has no comment", done.stderr)
        self.assertFalse((self.chart / "README.md").exists())

    def test_a_form_of_yaml_that_is_not_read_is_refused_by_its_line(self) -> None:
        for line in ("- an item", "   odd: 1", "    deep: 1"):
            with self.subTest(line):
                (self.chart / "values.yaml").write_text(VALUES + line + "\n")
                done = self.run_script()
                self.assertEqual(done.returncode, 1)
                self.assertIn("line 13 is no `key: value`", done.stderr)

    def test_the_check_notices_a_page_that_is_missing_or_old_and_writes_nothing(self) -> None:
        done = self.run_script("--check")
        self.assertEqual(done.returncode, 1)
        self.assertIn("run scripts/chart-readme", done.stderr)
        self.assertFalse((self.chart / "README.md").exists())
        self.assertEqual(self.run_script().returncode, 0)
        self.assertEqual(self.run_script("--check").returncode, 0)
        (self.chart / "values.yaml").write_text(VALUES.replace("replicas: 2", "replicas: 3"))
        self.assertEqual(self.run_script("--check").returncode, 1)


class Page(unittest.TestCase):
    """charts/trainyard holds one list of values in three places."""

    def test_the_page_is_what_the_comments_say(self) -> None:
        done = subprocess.run([PROGRAM, "--check"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_schema_knows_the_values_and_no_others(self) -> None:
        values = {name for name, _, _ in SCRIPT["read_values"]((CHART / "values.yaml").read_text())}
        schema = schema_paths(json.loads((CHART / "values.schema.json").read_text()))
        # helm gives "global" to every chart.
        self.assertEqual(schema - {"global"}, values)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
