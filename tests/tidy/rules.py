"""The layout's rules. Each takes a tree and gives one sentence for each place that breaks it; rules_test.py breaks each of them."""

import json
import posixpath
import re
from collections.abc import Callable, Iterator

import error_rules
import initialiser_rules
import local_names
from layout import OF_TESTS, Layout, find_cycle, top

LINES_MAX = 500
TORCH_HEADER = re.compile(r"(torch|ATen|c10|caffe2)/")
OPEN_END = re.compile(r"\b(TO[D]O|FIX[M]E|XX[X]|HAC[K])\b")  # In this form it does not find itself.


def files_without_a_target(layout: Layout) -> Iterator[str]:
    for path in layout.texts:
        if not layout.owner(path) and (path.endswith(".cpp") or top(path) not in OF_TESTS):
            yield f"{path} belongs to no target: no CMakeLists.txt names it, and its folder is that of no library"
    listed: dict[str, str] = {}
    for target in layout.targets.values():
        for source in target.sources:
            if source not in layout.texts:
                yield f"{target.name} has the source {source}, which does not exist"
            elif source in listed:
                yield f"{source} belongs to two targets, {listed[source]} and {target.name}"
            listed[source] = target.name


def includes_without_a_link(layout: Layout) -> Iterator[str]:
    for include in layout.includes:
        source = layout.owner(include.source)
        if not include.target or not source or include.target.endswith(".cpp"):  # A .cpp becomes a part of the test that includes it.
            continue
        is_beside = posixpath.dirname(include.source) == posixpath.dirname(include.target)
        if is_beside and not layout.targets[source].is_library:
            continue  # A folder's program, or the module that its library loads.
        target = layout.owner(include.target)
        if target and target not in layout.seen_by(source):
            yield f"{include.source} includes {include.name}, but {source} does not link {target}"


def torch_out_of_place(layout: Layout) -> Iterator[str]:
    users, free = layout.tables.torch_users, layout.tables.torch_free
    for include in layout.includes:
        if TORCH_HEADER.match(include.name):
            owner = layout.owner(include.source)
            if not include.source.startswith(users):
                yield f"{include.source} includes {include.name}: only {', '.join(users)} may"
            elif owner and not layout.links_torch(owner):
                yield f"{include.source} includes {include.name}, but {owner} does not link torch"
    for target in layout.targets.values():
        if layout.links_torch(target.name):
            if not f"{target.folder}/".startswith(users):
                yield f"{target.name} links torch: only the targets of {', '.join(users)} may"
            if target.name in free:
                yield f"{target.name} links torch, but TORCH_FREE names it: {free[target.name]}"
        elif target.is_library and top(target.folder) == "worker" and target.name not in free:
            yield f"{target.name} links no torch: name it in TORCH_FREE"
    yield from (f"TORCH_FREE names {name}, which is no target" for name in free if name not in layout.targets)


def headers_compiled_with_torch(layout: Layout) -> Iterator[str]:
    """tests/tidy compiles headers alone: those of the folders without torch without its precompiled header, which would hide a missing include."""
    written = re.search(r"set\(torch_free_folders\s+([^)]*)\)", layout.files.get("tests/tidy/CMakeLists.txt", ""))
    named = {f"worker/{folder}" for folder in written.group(1).split()} if written else set()
    folders = {posixpath.dirname(path) for path in layout.texts if top(path) == "worker"}
    with_torch = {posixpath.dirname(path) for path in layout.texts if (owner := layout.owner(path)) and layout.links_torch(owner)}
    for folder in sorted(named ^ (folders - with_torch)):
        verb = "names" if folder in named else "lacks"
        yield f"torch_free_folders of tests/tidy/CMakeLists.txt {verb} {folder}, of which {'some' if folder in named else 'no'} target links torch"


def folder_of(path: str, folders: tuple[str, ...]) -> str:
    """The one of `folders` in which `path` lies; empty if none is."""
    return next((folder for folder in folders if path.startswith(f"{folder}/")), "")


def arrows_out_of_table(layout: Layout) -> Iterator[str]:
    arrows = layout.tables.arrows
    used: set[tuple[str, str, str]] = set()
    used_from: set[tuple[str, str, str]] = set()
    for include in layout.includes:
        begin, end, folder = top(include.source), top(include.target), posixpath.dirname(include.target)
        if not include.target or begin == end:
            continue
        used |= {(begin, end, folder), (begin, end, "")}
        arrow = arrows.get((begin, end))
        if arrow is None:
            yield f"{include.source} includes {include.name}: ARROWS has none from {begin}/ to {end}/"
        elif arrow.is_link:
            yield f"{include.source} includes {include.name}: {begin}/ only links {end}/"
        elif arrow.only and folder not in arrow.only:
            yield f"{include.source} includes {include.name}: the arrow from {begin}/ to {end}/ leads only to {', '.join(arrow.only)}"
        elif arrow.only_from and not (first := folder_of(include.source, arrow.only_from)):
            yield f"{include.source} includes {include.name}: the arrow from {begin}/ to {end}/ begins only in {', '.join(arrow.only_from)}"
        elif arrow.only_from:
            used_from.add((begin, end, first))
    for target in layout.targets.values():
        for name in sorted(target.public | target.private):
            folder = layout.targets[name].folder if name in layout.targets else ""
            begin, end = top(target.folder), top(folder)
            if not end or begin == end:
                continue
            if (begin, end) in arrows and arrows[begin, end].is_link:
                used |= {(begin, end, folder), (begin, end, "")}
            if (begin, end) not in arrows:
                yield f"{target.name} links {name}: ARROWS has none from {begin}/ to {end}/"
    for (begin, end), arrow in arrows.items():
        for first in arrow.only_from:
            if (begin, end, first) not in used_from:
                yield f"ARROWS lets {first}/ include {end}/, which nothing there does: take it out"
        for folder in ("", *arrow.only):
            if (begin, end, folder) not in used:
                yield f"ARROWS lets {begin}/ include {folder or end}/, which nothing does: take it out"


def cycles(layout: Layout) -> Iterator[str]:
    """Between libraries, by links and includes; and between folders, by includes, since several may be one library's."""
    libraries = {target.name: {name for name in target.public | target.private if name in layout.targets} for target in layout.targets.values()}
    folders: dict[str, set[str]] = {}
    for include in layout.includes:
        if not include.target:
            continue
        begin, end = layout.owner(include.source), layout.owner(include.target)
        if begin and end and begin != end:
            libraries[begin].add(end)
        begin, end = posixpath.dirname(include.source), posixpath.dirname(include.target)
        if begin != end:
            folders.setdefault(begin, set()).add(end)
    for what, edges in (("libraries", libraries), ("folders", folders)):
        if cycle := find_cycle(edges):
            yield f"{what} need each other: {' -> '.join(cycle)}"


def unreadable_files(layout: Layout) -> Iterator[str]:
    for path, text in layout.texts.items():
        try:
            local_names.own_names(text, with_shared=path.endswith(".hpp"))
        except local_names.Unreadable as error:
            yield f"{path}: {error}"


def names_of(layout: Layout, path: str) -> tuple[local_names.Name, ...]:
    """A .cpp's own names, or all that a header gives; none of a file that unreadable_files() names."""
    try:
        return local_names.own_names(layout.texts[path], with_shared=path.endswith(".hpp"))
    except local_names.Unreadable:
        return ()


def shared_own_names(layout: Layout) -> Iterator[str]:
    """All presets but debug compile a target's files in batches, in which two anonymous namespaces are one."""
    for target in layout.targets.values():
        places: dict[tuple[str, str], dict[str, local_names.Name]] = {}
        for source in target.sources:
            for name in names_of(layout, source) if source in layout.texts else ():
                places.setdefault((name.scope, name.name), {}).setdefault(source, name)
        for (scope, name), by_source in places.items():
            meanings = {found.same_if for found in by_source.values()}
            if len(by_source) > 1 and (len(meanings) > 1 or "" in meanings):
                where = " and ".join(f"{source}:{found.line}" for source, found in by_source.items())
                yield f"{where} of {target.name} each have a {scope}::{name}: share it, or rename one"


def may_not_meet(one: local_names.Name, other: local_names.Name) -> bool:
    if one.parameters is not None and other.parameters is not None:
        return one.parameters == other.parameters
    return not one.same_if or one.same_if != other.same_if


def own_names_of_unseen_headers(layout: Layout) -> Iterator[str]:
    """In a batch a file also sees the headers of the others: one may give a name that the file has of its own. Functions of different parameters
    may meet there."""
    given: dict[str, dict[tuple[str, str], list[local_names.Name]]] = {path: {} for path in layout.texts if path.endswith(".hpp")}
    for path, names in given.items():
        for name in names_of(layout, path):
            names.setdefault((name.scope, name.name), []).append(name)
    for target in layout.targets.values():
        sources = [source for source in target.sources if source in layout.texts]
        headers = sorted({header for source in sources for header in layout.headers_of(source) if header in given})
        for source in sources:
            for name in names_of(layout, source):
                for header in headers:
                    others = given[header].get((name.scope, name.name), ()) if header not in layout.headers_of(source) else ()
                    if any(may_not_meet(name, other) for other in others):
                        yield (f"{source}:{name.line} has a {name.scope}::{name.name} of its own, and {header} of another file of {target.name}"
                               " gives one")


def effects_in_plan(layout: Layout) -> Iterator[str]:
    """The folders of PURE only decide: they see each other, structs and what is common, and have no thread, file, log or clock."""
    forbidden = layout.tables.no_plan_headers
    for include in layout.includes:
        if posixpath.dirname(include.source) not in layout.tables.pure:
            continue
        if include.name in forbidden:
            yield f"{include.source} includes {include.name}: {forbidden[include.name]}"
        elif include.is_quoted and posixpath.dirname(include.name) not in (*layout.tables.pure, *layout.tables.seen_by_pure):
            yield f"{include.source} includes {include.name}: a plan sees only {', '.join((*layout.tables.pure, *layout.tables.seen_by_pure))}"
    for path, text in layout.texts.items():
        if posixpath.dirname(path) in layout.tables.pure and re.search(r"_clock::now|SystemClock", text):
            yield f"{path} reads a clock"


def forbidden_headers_that_do_not_exist(layout: Layout) -> Iterator[str]:
    for header in layout.tables.no_plan_headers:
        if "/" in header and header not in layout.texts:
            yield f"NO_PLAN_HEADERS forbids {header}, which does not exist"


def own_header_not_first(layout: Layout) -> Iterator[str]:
    first: dict[str, str] = {}
    for include in layout.includes:
        first.setdefault(include.source, include.name)
    for path in layout.texts:
        header = path.removesuffix(".cpp") + ".hpp"
        if path.endswith(".cpp") and top(path) not in OF_TESTS and header in layout.texts and first.get(path) != header:
            yield f"{path} does not include {header} first"


def headers_without_pragma_once(layout: Layout) -> Iterator[str]:
    for path, text in layout.texts.items():
        if path.endswith(".hpp") and "#pragma once" not in text.split("\n\n")[0]:
            yield f"{path} does not begin with #pragma once"


def long_files(layout: Layout) -> Iterator[str]:
    for path, text in layout.texts.items():
        if (count := len(text.splitlines())) > LINES_MAX:
            yield f"{path} has {count} lines: is it one concept?"


def skipped_tests(layout: Layout) -> Iterator[str]:
    for path, text in layout.texts.items():
        if top(path) == "tests" and path != "tests/skips.hpp" and re.search(r"\b(GTEST_SKIP|DISABLED_)", text):
            yield f"{path} skips a test: use tests/skips.hpp"


def open_ends(layout: Layout) -> Iterator[str]:
    for path, text in layout.files.items():
        if OPEN_END.search(text):
            yield f"{path} leaves something open"


RULES: tuple[Callable[[Layout], Iterator[str]], ...] = (
    files_without_a_target, includes_without_a_link, torch_out_of_place, headers_compiled_with_torch, arrows_out_of_table, cycles, unreadable_files,
    shared_own_names, own_names_of_unseen_headers, effects_in_plan, forbidden_headers_that_do_not_exist, own_header_not_first,
    headers_without_pragma_once, long_files, skipped_tests, open_ends, *error_rules.RULES,
    *initialiser_rules.RULES)


def differences_to_the_build(layout: Layout, commands: str, batches: dict[str, str], root: str) -> Iterator[str]:
    """Where the build is another than the CMakeLists.txt say by how they are read here. `commands`: the text of compile_commands.json; `batches`:
    the texts of the files that it names and that include several sources; `root`: the tree's own path."""
    built: dict[str, str] = {}
    for command in json.loads(commands):
        output = re.search(r" -o \S*CMakeFiles/([^/]+)\.dir/", command["command"])
        texts = [command["file"], *re.findall(r'#include "([^"]+)"', batches.get(command["file"], ""))]
        built |= {text.removeprefix(f"{root}/"): output.group(1) if output else "" for text in texts}
    has_worker = any(source.startswith("worker/headers/") for source in built)
    for source, owner in layout.owner_of_source.items():
        target = layout.targets[owner]
        is_of_worker = "worker" in source.split("/") or layout.links_torch(owner)
        if source in built:
            if built[source] != owner:
                yield f"{source} is built by {built[source]}, not by {owner}"
        elif "torch::cuda" not in target.private and (has_worker or not is_of_worker):  # CUDA's headers are not on every machine.
            yield f"no target builds {source}"
