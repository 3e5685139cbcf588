"""How errors are passed on: TRY of common/try.hpp forwards one, and may be used only where it is safe. Each rule takes a tree and gives one sentence
for each place that breaks it; rules_test.py breaks each of them."""

import functools
import re
from collections.abc import Iterator

import local_names
from layout import Layout

TRY_HEADER = "common/try.hpp"
BEFORE_A_STATEMENT = {";", "{", "}", ")", "else"}  # The ) is that of an if or a loop.


@functools.cache
def words_of(text: str) -> tuple[list[str], list[int]]:
    """The tokens of `text`, and the line of each."""
    found = local_names.tokens(text)
    return [word for word, _ in found], [line for _, line in found]


def tries(words: list[str]) -> Iterator[int]:
    """The indices in `words` at which a TRY begins."""
    return (index for index, word in enumerate(words) if word == "TRY" and words[index + 1:index + 2] == ["("])


def tries_within_expressions(layout: Layout) -> Iterator[str]:
    """A TRY is a statement, or the whole of what follows the = of one: g++ destroys no temporaries of an expression around it when it returns."""
    for path, text in layout.texts.items():
        words, lines = words_of(text)
        for index in tries(words):
            before, assigned_to = words[index - 1], words[index - 2]
            begins = before in BEFORE_A_STATEMENT or (before == "=" and (local_names.WORD.match(assigned_to) or assigned_to in (")", "]")))
            if not begins or words[local_names.past(words, index + 1)] != ";":
                yield f"{path}:{lines[index]} has a TRY within an expression: give its value a name in a statement before"


def tries_without_their_header(layout: Layout) -> Iterator[str]:
    """A batch of files would hide a missing include, and a header would give the name to all who include it."""
    users = {path for path, text in layout.texts.items() if any(tries(words_of(text)[0]))}
    includers = {include.source for include in layout.includes if include.target == TRY_HEADER}
    for path in sorted(users | includers):
        if path.endswith(".hpp"):
            if path != TRY_HEADER:
                yield f"{path} is a header and has to do with {TRY_HEADER}: only .cpp files may use TRY"
        elif path not in includers:
            yield f"{path} uses TRY and does not include {TRY_HEADER}"
        elif path not in users:
            yield f"{path} includes {TRY_HEADER} and uses no TRY"


PLAIN_FORWARD = re.compile(r"! (?P<name>\w+) \) (?:\{ )?return (?:tl :: unexpected \( (?P=name) \. error \( \) \)|(?P=name)) ;")


def errors_forwarded_without_try(layout: Layout) -> Iterator[str]:
    """`if (!x) return tl::unexpected(x.error());` and `return x;` in a .cpp. After a look at the error, as in `if (!x && is_damage(x.error().kind))`,
    it is no plain forward, and headers have no TRY."""
    for path, text in layout.texts.items():
        if not path.endswith(".cpp"):
            continue
        words, lines = words_of(text)
        starts, joined = {}, ""
        for word, line in zip(words, lines):
            starts[len(joined)] = line
            joined += word + " "
        yield from (f"{path}:{starts[found.start()]} forwards the error of {found['name']}: use TRY" for found in PLAIN_FORWARD.finditer(joined))


def errors_spelled_otherwise(layout: Layout) -> Iterator[str]:
    for path, text in layout.texts.items():
        words, lines = words_of(text)
        for index, word in enumerate(words):
            if word == "make_unexpected" or word == "unexpected" and words[index + 1:index + 2] == ["{"]:
                yield f"{path}:{lines[index]} makes an unexpected value otherwise than by tl::unexpected(error)"


RULES = (tries_within_expressions, tries_without_their_header, errors_forwarded_without_try, errors_spelled_otherwise)
