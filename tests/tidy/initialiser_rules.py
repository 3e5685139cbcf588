"""How constructors initialise their members. Each rule takes a tree and gives one sentence for each place that breaks it; rules_test.py breaks each of
them."""

from collections.abc import Iterator

import local_names
from layout import Layout

# A line that keeps parentheses says why with these words: braces would make a list, as of a std::vector or of JSON.
REASON = "// Braces would"


def initialisers(words: list[str], begin: int) -> list[int]:
    """The indices of the names in the list of initialisers that begins at `begin`, after its colon; none if no such list begins there."""
    names, index = [], begin
    try:
        while True:
            while words[index + 1] == "::":
                index += 2
            name, index = index, index + 1
            if not local_names.WORD.match(words[name]):
                return []
            if words[index] == "<":
                index = local_names.past_angles(words, index)
            if words[index] not in ("(", "{"):
                return []
            names.append(name)
            index = local_names.past(words, index)
            if words[index] == "{":
                return names  # The body.
            if words[index] != ",":
                return []
            index += 1
    except (IndexError, local_names.Unreadable):
        return []


def members_initialised_by_parentheses(layout: Layout) -> Iterator[str]:
    """A member's name begins with a small letter; bases and delegated constructors have a type's name, or a qualified one."""
    for path, text in layout.texts.items():
        found = local_names.tokens(text)
        words, by_line = [word for word, _ in found], text.splitlines()
        for colon, word in enumerate(words):
            if word != ":" or words[colon - 1] not in (")", "noexcept"):
                continue
            for index in initialisers(words, colon + 1):
                name, line = found[index]
                is_member = name[0].islower() and words[index - 1] != "::" and words[index + 1] == "("
                if is_member and REASON not in by_line[line - 1]:
                    yield f"{path}:{line} initialises {name} by parentheses: use braces, or end the line with \"{REASON} ...\""


RULES = (members_initialised_by_parentheses,)
