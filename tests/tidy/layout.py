"""Reads the layout of a tree from its CMakeLists.txt and includes. Pure: a tree is a dictionary of texts."""

import dataclasses
import functools
import posixpath
import re

from tables import TABLES, Tables

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.MULTILINE)
CALL = re.compile(r"\b(trainyard_library|trainyard_torch_library|trainyard_test_library|trainyard_test|trainyard_use_headers"
                  r"|add_executable|add_library|target_link_libraries|target_include_directories)\(\s*([^)]*)\)")
LIBRARY_CALLS = ("trainyard_library", "trainyard_torch_library", "trainyard_test_library")
SECTIONS = {"SOURCES", "PUBLIC", "PRIVATE", "INTERFACE", "LINK", "LABELS", "TIMEOUT", "HEADERS"}
FLAGS = {"TORCH", "SANITIZED", "PLAIN", "STATIC", "SHARED", "MODULE", "OBJECT", "EXCLUDE_FROM_ALL"}
OF_TESTS = ("tests", "bench", "examples")  # Top folders whose headers without a .cpp belong to no target.


@dataclasses.dataclass
class Target:
    name: str
    folder: str  # The folder of the CMakeLists.txt that makes it.
    is_library: bool  # One of LIBRARY_CALLS made it: it is no program, and no module that is only loaded.
    sources: list[str] = dataclasses.field(default_factory=list)  # Paths from the root.
    public: set[str] = dataclasses.field(default_factory=set)  # The libraries that it links PUBLIC, which all that link it may include.
    private: set[str] = dataclasses.field(default_factory=set)  # The libraries that it links PRIVATE.
    include_folders: list[str] = dataclasses.field(default_factory=list)  # Where includes may begin, beside the root.


@dataclasses.dataclass(frozen=True)
class Include:
    source: str
    name: str  # The path as it is written.
    is_quoted: bool
    target: str  # The file of the tree that the path means; "" for a file outside.


def read_targets(lists: dict[str, str]) -> dict[str, Target]:
    """The targets that the CMakeLists.txt of `lists` make."""
    targets: dict[str, Target] = {}
    aliases: dict[str, str] = {}
    for path, text in lists.items():
        folder = posixpath.dirname(path)
        for call, body in CALL.findall(re.sub(r"#.*", "", text)):
            name, *words = body.split()
            if words[:1] == ["ALIAS"]:
                aliases[name] = words[1]
                continue
            sections, flags = sections_of(words)
            if call in LIBRARY_CALLS:
                name = f"trainyard_{name}"
                targets[name] = Target(name, folder, is_library=True)
            elif call in ("trainyard_test", "add_executable", "add_library"):
                targets[name] = Target(name, folder, is_library=False)
            elif name not in targets:
                raise ValueError(f"{path}: {call} names {name} before anything makes it")
            target = targets[name]
            if call == "target_include_directories":
                target.include_folders += [word.removeprefix("${CMAKE_SOURCE_DIR}/") for word in sections["PUBLIC"] + sections["INTERFACE"]]
                continue
            sources = sections[""] if call in ("add_executable", "add_library") else sections["SOURCES"]
            target.sources += [posixpath.normpath(posixpath.join(folder, word)) for word in sources if "$" not in word]
            target.public |= set(sections["PUBLIC"] + sections["INTERFACE"])
            target.private |= set(sections["PRIVATE"] + sections["LINK"])
            if call == "trainyard_use_headers":
                target.private |= set(sections[""])
            if call == "trainyard_torch_library":
                target.public.add("torch::cpu")
            if "TORCH" in flags:
                target.private.add("torch::cpu")
    for target in targets.values():
        target.public = {aliases.get(name, name) for name in target.public}
        target.private = {aliases.get(name, name) for name in target.private}
    return targets


def sections_of(words: list[str]) -> tuple[dict[str, list[str]], set[str]]:
    """The words after each keyword ("" before the first), and the flags among them."""
    sections: dict[str, list[str]] = {name: [] for name in SECTIONS | {""}}
    flags, current = set(), ""
    for word in words:
        if word in SECTIONS:
            current = word
        elif word in FLAGS:
            flags.add(word)
        else:
            sections[current].append(word)
    return sections, flags


class Layout:
    """A tree's targets and includes. `files`: the texts of its .cpp, .hpp and CMakeLists.txt, and of what else the rules read, by their paths."""

    def __init__(self, files: dict[str, str], tables: Tables = TABLES) -> None:
        self.files, self.tables = files, tables
        self.targets = read_targets({path: text for path, text in files.items() if posixpath.basename(path) == "CMakeLists.txt"})
        self.texts = {path: text for path, text in files.items() if path.endswith((".cpp", ".hpp"))}
        self.include_folders = [folder for target in self.targets.values() for folder in target.include_folders]
        self.owner_of_source = {source: target.name for target in self.targets.values() for source in target.sources}
        self.includes = [Include(path, quoted or angled, bool(quoted), self.meant(path, quoted or angled))
                         for path, text in self.texts.items() for quoted, angled in INCLUDE.findall(text)]
        self.included_by: dict[str, list[str]] = {path: [] for path in self.texts}
        for include in self.includes:
            self.included_by[include.source] += [include.target] if include.target else []

    def meant(self, path: str, name: str) -> str:
        places = ["", posixpath.dirname(path), *self.include_folders]
        return next((file for place in places if (file := posixpath.join(place, name)) in self.texts), "")

    @functools.cache
    def owner(self, path: str) -> str:
        """The target that `path` belongs to: a .cpp to the one that lists it; a header to that of the .cpp beside it, or else to the library of
        the header's name that has a source in its folder, or else to the only library of its folder, or else to the library of which it is a
        public header. "" when there is none, as for a header of tests without a .cpp."""
        if path.endswith(".cpp"):
            return self.owner_of_source.get(path, "")
        if owner := self.owner_of_source.get(path.removesuffix(".hpp") + ".cpp"):
            return owner
        folder, stem = posixpath.dirname(path), posixpath.basename(path).removesuffix(".hpp")
        if top(path) in OF_TESTS:
            return ""
        named = self.targets.get(f"trainyard_{stem}")
        if named and any(posixpath.dirname(source) == folder for source in named.sources):
            return named.name
        here = [target for target in self.targets.values() if target.folder == folder]
        here = [target for target in here if target.is_library] or here
        if len(here) == 1:
            return here[0].name
        public = [target.name for target in self.targets.values() for prefix in target.include_folders if path.startswith(prefix + "/")]
        return public[0] if len(public) == 1 else ""

    @functools.cache
    def headers_of(self, path: str) -> frozenset[str]:
        """The files of the tree that `path` includes, directly or by others."""
        seen, waiting = set(), list(self.included_by[path])
        while waiting:
            current = waiting.pop()
            if current not in seen:
                seen.add(current)
                waiting += self.included_by[current]
        return frozenset(seen)

    @functools.cache
    def seen_by(self, name: str) -> frozenset[str]:
        """The targets whose headers `name` may include: itself, those that it links, and those that these link PUBLIC, and so on."""
        seen, waiting = {name}, sorted(self.targets[name].public | self.targets[name].private)
        while waiting:
            current = waiting.pop()
            if current not in seen:
                seen.add(current)
                waiting += self.targets[current].public if current in self.targets else ()
        return frozenset(seen)

    @functools.cache
    def links_torch(self, name: str) -> bool:
        """True when torch is among all that the target `name` links, publicly or not, followed to the end."""
        seen, waiting = set(), [name]
        while waiting:
            current = waiting.pop()
            if current not in seen:
                seen.add(current)
                waiting += self.targets[current].public | self.targets[current].private if current in self.targets else ()
        return any(word.startswith("torch::") for word in seen)


def top(path: str) -> str:
    return path.split("/")[0]


def count_arrows(layout: Layout) -> dict[tuple[str, str], int]:
    """How many includes lead from one top folder to another."""
    counts: dict[tuple[str, str], int] = {}
    for include in layout.includes:
        arrow = top(include.source), top(include.target)
        if include.target and arrow[0] != arrow[1]:
            counts[arrow] = counts.get(arrow, 0) + 1
    return dict(sorted(counts.items()))


def find_cycle(edges: dict[str, set[str]]) -> list[str]:
    """The nodes of one cycle, the first one again at the end; empty when there is none."""
    done: set[str] = set()
    for begin in sorted(edges):
        path, waiting = [], [(begin, False)]
        while waiting:
            node, is_left = waiting.pop()
            if is_left:
                path.pop()
                done.add(node)
            elif node in path:
                return [*path[path.index(node):], node]
            elif node not in done:
                path.append(node)
                waiting.append((node, True))
                waiting += [(other, False) for other in sorted(edges.get(node, ()))]
    return []
