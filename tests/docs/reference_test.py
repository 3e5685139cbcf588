#!/usr/bin/env python3
"""scripts/reference, and the page that it writes. Usage: reference_test.py SOURCE_FOLDER"""

import copy
import pathlib
import re
import runpy
import sys
import unittest

import yaml

SOURCE = pathlib.Path(sys.argv[1]).resolve()
SCRIPT = runpy.run_path(str(SOURCE / "scripts/reference"), run_name="reference")
CRD = yaml.safe_load((SOURCE / "crds/trainingjobs.trainyard.dev.yaml").read_text())
EXAMPLES = list(yaml.safe_load_all((SOURCE / "docs/reference.yaml").read_text()))


def small(**spec_fields) -> dict:
    """A definition with these fields in spec, and an empty status."""
    fields = {"spec": {"type": "object", "description": "S.", "properties": spec_fields},
              "status": {"type": "object", "description": "T.", "properties": {}}}
    return {"spec": {"versions": [{"schema": {"openAPIV3Schema": {"type": "object", "properties": fields}}}]}}


class Reference(unittest.TestCase):
    maxDiff = None

    def generate(self, crd: dict, *examples: dict) -> str:
        return SCRIPT["generate"](crd, list(examples))

    def assert_incomplete(self, says: str, crd: dict, *examples: dict) -> None:
        with self.assertRaisesRegex(SCRIPT["Incomplete"], says):
            self.generate(crd, *examples)

    def test_the_page_is_what_the_script_writes_now(self):
        self.assertEqual((SOURCE / "docs/reference.md").read_text(), self.generate(CRD, *EXAMPLES), "run: scripts/reference")

    def test_the_page_has_every_field_and_every_rule(self):
        page = (SOURCE / "docs/reference.md").read_text()
        schema = SCRIPT["schema_of"](CRD)
        paths = [path for path in SCRIPT["paths_of"](schema) if path.startswith(("spec.", "status."))]
        self.assertEqual(len(re.findall(r"^- \*\*`", page, re.MULTILINE)), len(paths))
        self.assertGreater(len(paths), 150)
        rules = str(CRD).count("'rule':")
        self.assertGreater(rules, 30)
        self.assertEqual(page.split("## Rules")[1].count("\\\n  `"), rules)

    def test_a_field_says_its_type_bounds_default_and_example(self):
        crd = small(
            count={"type": "integer", "minimum": 1, "maximum": 9, "default": 3, "description": "How many."},
            rate={"type": "number", "minimum": 0, "exclusiveMinimum": True, "maximum": 1, "description": "How fast."},
            decay={"type": "number", "minimum": 0, "maximum": 1, "exclusiveMaximum": True, "description": "How slow."},
            mode={"type": "string", "enum": ["max", "min"], "default": "max", "description": "Which <way>."},
            labels={"type": "object", "maxProperties": 2, "additionalProperties": {"type": "string"}, "description": "PET_*."},
            names={"type": "array", "maxItems": 4, "items": {"type": "string"}, "description": "Names."},
            bits={"x-kubernetes-int-or-string": True, "enum": [16, "16", "16-true"], "description": "Which bits."})
        page = self.generate(crd, {"spec": {"count": 5, "rate": 0.5, "decay": 0.1, "mode": "min", "labels": {"a": "b"}, "names": ["x"],
                                            "bits": "16-true"}})
        for line in ("- **`count`** (integer; 1 to 9; default `3`; example `5`). How many.",
                     "- **`rate`** (number; above 0, at most 1; example `0.5`). How fast.",
                     "- **`decay`** (number; at least 0, below 1; example `0.1`). How slow.",
                     "- **`mode`** (string; one of `max`, `min`; default `max`; example `min`). Which &lt;way>.",
                     "- **`labels`** (map from string to string; at most 2 entries; example `{a: b}`). PET_\\*.",
                     "- **`names`** (list of strings; at most 4 entries; example `[x]`). Names.",
                     "- **`bits`** (integer or string; one of `16`, `'16'`, `16-true`; example `16-true`). Which bits."):
            self.assertIn(line + "\n", page)

    def test_a_field_without_description_or_example_is_named(self):
        self.assert_incomplete("spec.count: has no description", small(count={"type": "integer"}), {"spec": {"count": 1}})
        self.assert_incomplete("spec.count: no document of docs/reference.yaml", small(count={"type": "integer", "description": "C."}), {})

    def test_an_example_of_a_field_that_is_not_there_is_named(self):
        examples = copy.deepcopy(EXAMPLES)
        examples[0]["spec"]["checkpoint"]["keep"]["lost"] = 1
        self.assert_incomplete("spec.checkpoint.keep.lost: docs/reference.yaml uses it", CRD, *examples)

    def test_a_field_that_must_be_left_out_needs_no_example(self):
        crd = small(hostname={"type": "string", "maxLength": 63, "description": "Must be left out."})
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        schema["x-kubernetes-validations"] = [{"rule": "!has(self.hostname)", "fieldPath": ".hostname", "message": "must be left out"}]
        page = self.generate(crd, {})
        self.assertIn("- **`hostname`** (string; at most 63 characters). Must be left out.\n", page)
        self.assertIn("- `spec.hostname`: must be left out\\\n  `!has(self.hostname)`\n", page)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
