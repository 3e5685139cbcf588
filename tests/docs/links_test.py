#!/usr/bin/env python3
"""Every path of the repository, and every heading, that a page names is there. Usage: links_test.py SOURCE_FOLDER"""

import pathlib
import re
import subprocess
import sys
import unittest

SOURCE = pathlib.Path(sys.argv[1]).resolve()
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
PATH = re.compile(r"(?<![\w/.$:~{-])((?:[\w.*-]+/)+[\w.*-]*)")


def pages() -> list[pathlib.Path]:
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=SOURCE, check=True,
                            capture_output=True, text=True).stdout.split()
    return [SOURCE / path for path in listed if (SOURCE / path).exists()]


def top_folders() -> set[str]:
    listed = subprocess.run(["git", "ls-tree", "-d", "--name-only", "HEAD"], cwd=SOURCE, check=True, capture_output=True, text=True)
    return set(listed.stdout.split())


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))


def anchors_of(text: str) -> set[str]:
    """The ids that GitHub gives to a page's headings."""
    anchors: set[str] = set()
    for heading in re.findall(r"^#+ +(.+)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        number = 1
        while (candidate := anchor if number == 1 else f"{anchor}-{number - 1}") in anchors:
            number += 1
        anchors.add(candidate)
    return anchors


def named_paths(text: str, folders: set[str]) -> set[str]:
    """Paths that begin with a folder of the repository's root, in `code` and in blocks of code."""
    code = re.findall(r"^```.*?^```", text, re.MULTILINE | re.DOTALL) + re.findall(r"`[^`\n]+`", text)
    found = {path.rstrip(".") for piece in code for path in PATH.findall(piece)}
    return {path for path in found if path.split("/")[0] in folders}


def faults_of(page: pathlib.Path, text: str, root: pathlib.Path, folders: set[str]) -> list[str]:
    faults = []
    for target in LINK.findall(without_code(text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists():
            faults.append(f"the link {target} leads nowhere")
        elif anchor and anchor not in anchors_of(text if there == page else there.read_text()):
            faults.append(f"the link {target} names no heading")
    for path in sorted(named_paths(text, folders)):
        if not (any(root.glob(path.rstrip("/"))) if "*" in path else (root / path).exists()):
            faults.append(f"{path} is not there")
    return faults


class Pages(unittest.TestCase):
    def test_every_path_and_heading_that_a_page_names_is_there(self):
        folders = top_folders()
        self.assertIn("operator", folders)
        named = 0
        for page in pages():
            text = page.read_text()
            named += len(named_paths(text, folders)) + len(LINK.findall(text))
            self.assertEqual(faults_of(page, text, SOURCE, folders), [], page.relative_to(SOURCE))
        self.assertGreater(named, 300)

    def test_every_page_is_reached_from_the_readme(self):
        reached, open_pages = set(), [SOURCE / "README.md"]
        while open_pages:
            page = open_pages.pop()
            if page in reached:
                continue
            reached.add(page)
            targets = (target.partition("#")[0] for target in LINK.findall(page.read_text()))
            open_pages += [there for target in targets if target.endswith(".md") and (there := (page.parent / target).resolve()).exists()]
        self.assertEqual([page for page in pages() if page not in reached and "docs" in page.parts], [])


class Glossary(unittest.TestCase):
    def setUp(self) -> None:
        self.text = (SOURCE / "docs/glossary.md").read_text()
        self.entries = re.findall(r"^- \*\*([^*]+)\*\*: ((?:.+\n(?:  .+\n)*))", self.text, re.MULTILINE)

    def test_words_are_in_order_and_each_is_there_once(self):
        words = [word for word, _ in self.entries]
        self.assertGreater(len(words), 60)
        self.assertEqual(words, sorted(set(words)))

    def test_each_word_has_at_most_three_sentences_and_the_file_where_it_lives(self):
        for word, meaning in self.entries:
            self.assertEqual(len(LINK.findall(meaning)), 1, word)
            self.assertLessEqual(len(re.findall(r"\.(?:\s|$)", LINK.sub("", meaning))), 3, word)

    def test_a_word_with_two_meanings_has_an_entry(self):
        words = {word for word, _ in self.entries}
        twice = re.findall(r"^\| ([a-z]+) \|", self.text.split("## Words with two meanings")[1].split("|---|")[-1], re.MULTILINE)
        self.assertGreater(len(twice), 10)
        # "record" is explained as "record of the newest checkpoint".
        self.assertEqual([word for word in twice if not any(entry.split()[0] == word for entry in words)], [])


class Faults(unittest.TestCase):
    """The faults that the comparison finds."""

    def faults(self, text: str) -> list[str]:
        return faults_of(SOURCE / "docs/design.md", text, SOURCE, {"operator", "scripts"})

    def test_a_page_without_faults_has_none(self):
        self.assertEqual(self.faults("# One word\n[a](../README.md) [b](#one-word) [c](https://example.com/x) `operator/plan/*.cpp`\n"), [])

    def test_a_link_to_nowhere_is_named(self):
        self.assertEqual(self.faults("[a](lost.md)"), ["the link lost.md leads nowhere"])
        self.assertEqual(self.faults("# One\n[a](#two)"), ["the link #two names no heading"])

    def test_a_path_that_is_not_there_is_named(self):
        self.assertEqual(self.faults("`operator/plan/lost.cpp`"), ["operator/plan/lost.cpp is not there"])
        self.assertEqual(self.faults("```sh\nscripts/lost --now\n```\n"), ["scripts/lost is not there"])
        self.assertEqual(self.faults("`operator/lost/*.cpp`"), ["operator/lost/*.cpp is not there"])

    def test_a_text_that_is_no_path_of_the_tree_is_left_alone(self):
        self.assertEqual(self.faults("`generations/G.json`, `s3://operator/lost`, `/usr/scripts/lost`, `[a](b)`"), [])

    def test_headings_have_the_ids_of_github(self):
        self.assertEqual(anchors_of("# A `b.c` d\n## When it fails!\n## When it fails!\n```\n# no\n```\n"),
                         {"a-bc-d", "when-it-fails", "when-it-fails-1"})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
