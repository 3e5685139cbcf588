"""Finds the names that a .cpp keeps to itself: those of anonymous namespaces, and what is static, constant or a type at the level of a namespace.

All presets but debug compile several files of a library as one, in which their own names of one namespace meet. This reads tokens: it knows no more
of C++ than finds the names that a declaration gives, and refuses a text whose brackets it cannot follow."""

import dataclasses
import functools
import re

TOKEN = re.compile(
    r"""(?P<gap>\s+|//(?:\\\n|[^\n])*|/\*.*?\*/)
      | (?P<directive>\#(?:\\\n|//[^\n]*|/\*.*?\*/|[^\n/]|/)*)
      | (?P<raw>(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)")
      | (?P<text>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|(?:u8|[uUL])?'(?:\\.|[^'\\\n])*')
      | (?P<number>\.?[0-9](?:[eEpP][+-]|'[0-9a-zA-Z]|[0-9a-zA-Z_.])*)
      | (?P<word>[A-Za-z_]\w*)
      | (?P<mark>::|->|.)""",
    re.VERBOSE | re.DOTALL)
OPEN, CLOSE = {"(": ")", "{": "}", "[": "]"}, {")", "}", "]"}
SPECIFIERS = {"static", "inline", "constexpr", "consteval", "constinit", "const", "extern", "thread_local", "virtual", "explicit", "friend",
              "volatile", "mutable", "typename", "unsigned", "signed", "long", "short", "int", "char", "bool", "double", "float", "auto", "void"}
TYPE_WORDS = {"struct", "class", "union", "enum"}
BEFORE_BRACKETS = ("decltype", "alignas", "noexcept", "requires", "explicit", "__attribute__")  # Brackets after these words hold no parameters.
WORD = re.compile(r"[A-Za-z_]\w*$")


class Unreadable(Exception):
    """The text's brackets do not match."""


@dataclasses.dataclass(frozen=True)
class Name:
    scope: str  # The namespace around it, as "trainyard::cli"; anonymous ones are left out, since all see into them.
    name: str
    line: int
    same_if: str = ""  # Two declarations with one such text may meet: an alias of one type, a namespace's other name.
    parameters: str | None = None  # The types of a function's parameters; None if it is no function.


def tokens(text: str) -> list[tuple[str, int]]:
    """Words and marks with their lines, without comments and preprocessor lines; a string or a number is one token that is no word."""
    found, line, position = [], 1, 0
    while position < len(text):
        match = TOKEN.match(text, position)
        kind, value = match.lastgroup, match.group()
        if kind in ("raw", "text"):
            found.append(('""', line))
        elif kind == "number":
            found.append(("0", line))
        elif kind in ("word", "mark"):
            found.append((value, line))
        line += value.count("\n")
        position = match.end()
    return found


def past(words: list[str], begin: int) -> int:
    """The index after the bracket that closes the one at `begin`."""
    open_marks = []
    for index in range(begin, len(words)):
        word = words[index]
        if word in OPEN:
            open_marks.append(OPEN[word])
        elif word in CLOSE:
            expected = open_marks.pop()
            if word != expected:
                raise Unreadable(f"{expected} is missing before {word}")
        if not open_marks:
            return index + 1
    raise Unreadable(f"no bracket closes {words[begin]}")


def past_angles(words: list[str], begin: int) -> int:
    """The index after the > that closes the < at `begin`."""
    depth, index = 0, begin
    while index < len(words):
        if words[index] in OPEN:
            index = past(words, index)
            continue
        depth += {"<": 1, ">": -1}.get(words[index], 0)
        index += 1
        if depth == 0:
            return index
    raise Unreadable("no > closes a <")


def is_macro(words: list[str], index: int) -> bool:
    """True for TEST(...) {...} and for MAIN(...), which may be a whole declaration without a semicolon."""
    return words[index].isupper() and words[index + 1:index + 2] == ["("]


def has_parameters(words: list[str], index: int) -> bool:
    """True when a name with parameters comes before any members or value of the declaration at `index`."""
    while words[index] not in ("{", "=", ";"):
        if words[index] == "(" and WORD.match(words[index - 1]) and words[index - 1] not in BEFORE_BRACKETS:
            return True
        index = past(words, index) if words[index] in OPEN else index + 1
    return False


def parameter_types(words: list[str]) -> str:
    """The types of a function's parameters; `words` begins after their bracket."""
    types: list[str] = []
    end, depth, begin = past(["(", *words], 0) - 2, 0, 0
    for index in range(end + 1):
        depth += {"<": 1, ">": -1}.get(words[index], 0) + (words[index] in OPEN) - (words[index] in CLOSE and index < end)
        if index == end or words[index] == "," and depth == 0:
            one = words[begin:index]
            one = one[:one.index("=")] if "=" in one else one
            if len(one) > 1 and WORD.match(one[-1]) and one[-2] != "::" and one[-1] not in SPECIFIERS and one[:-1] != ["const"]:
                one = one[:-1]  # The parameter's name.
            types.append(" ".join(one))
            begin = index + 1
    return ", ".join(types)


def declared(words: list[str], is_anonymous: bool) -> list[tuple[str, str, str | None]]:
    """The names, each with its `same_if` and `parameters`, that one declaration of a namespace keeps within its file. `words` ends with the
    declaration's ; or }."""
    index = 0
    while index < len(words):  # Skips what may precede a declaration.
        if words[index] == "[":  # An attribute.
            index = past(words, index)
        elif words[index] == "template" and words[index + 1:index + 2] == ["<"]:
            index = past_angles(words, index + 1)
        elif words[index] in ("alignas", "__attribute__") and words[index + 1] == "(":
            index = past(words, index + 1)
        else:
            break
    words = words[index:]
    if not words or is_macro(words, 0) or words[0] in (";", "static_assert", "extern", "friend", "asm"):
        return []
    if words[0] == "using":
        return [(words[1], " ".join(words), None)] if words[2:3] == ["="] else []
    if words[0] == "namespace":
        return [(words[1], " ".join(words), None)]
    if words[0] == "typedef":
        return [(words[-2], " ".join(words), None)]
    if words[0] in TYPE_WORDS and not has_parameters(words, 0):
        return type_name(words)
    return declarators(words, is_anonymous)


def type_name(words: list[str]) -> list[tuple[str, str, str | None]]:
    index = 1
    while words[index] in ("class", "struct", "[", "(", *BEFORE_BRACKETS):
        index = past(words, index) if words[index] in OPEN else index + 1
    if words[index] == "{":
        return []  # It has no name.
    name = words[index]
    index += 1
    if words[index] == "<":
        return []  # A template's specialisation.
    if words[index] in (";", "::"):
        return []  # Only declared here; or a nested class of a type that a header has.
    return [(name, "", None)] if words[index] in ("{", ":", "final") else declarators(words[1:], True)


def declarators(words: list[str], is_anonymous: bool) -> list[tuple[str, str, str | None]]:
    """The names of a function or of variables."""
    specifiers, name, index, is_qualified = set(), "", 0, False
    while index < len(words):
        word = words[index]
        if word in BEFORE_BRACKETS and words[index + 1] == "(":
            index = past(words, index + 1)
            continue
        if word == "operator":
            return []  # The types of its operands distinguish it from others.
        if word in SPECIFIERS:
            specifiers.add(word)
        elif WORD.match(word):
            name, is_qualified = word, index > 0 and words[index - 1] == "::"
        elif word == "[" and words[index + 1] == "[":  # An attribute.
            index = past(words, index)
            continue
        elif word == "<":
            index = past_angles(words, index)
            continue
        elif word == "(" and words[index + 1] in ("*", "&"):  # A pointer to a function, a reference to an array.
            name, is_qualified = words[index + 2], False
            index = past(words, index)
            break
        elif word in ("(", "=", "{", "[", ";", ","):
            break
        index += 1
    is_function = words[index:index + 1] == ["("]
    is_internal = is_anonymous or "static" in specifiers or (not is_function and specifiers & {"const", "constexpr"} and "inline" not in specifiers)
    if not name or is_qualified or not is_internal:
        return []
    if is_function:
        return [(name, "", parameter_types(words[index + 1:]))]
    names: list[tuple[str, str, str | None]] = [(name, "", None)]
    while index < len(words):  # int a = 1, b = 2;
        if words[index] in OPEN:
            index = past(words, index)
        elif words[index] == "<" and WORD.match(words[index - 1]) and ">" in words[index:]:
            index = past_angles(words, index)
        else:
            if words[index] == ",":
                names.append((words[index + 1], "", None))
            index += 1
    return names


def end_of_declaration(words: list[str], begin: int) -> int:
    """The index after the declaration that begins at `begin`: after its ; or after the } of a function's body."""
    if is_macro(words, begin):
        end = past(words, begin + 1)
        return past(words, end) if words[end:end + 1] == ["{"] else end + (words[end:end + 1] == [";"])
    index, is_type, after_parameters, has_value = begin, False, False, False
    while index < len(words):
        word = words[index]
        if word == ";":
            return index + 1
        if word == "template" and words[index + 1:index + 2] == ["<"]:
            index = past_angles(words, index + 1)
            continue
        if word == "operator":  # Its marks are its name.
            index += 3 if words[index + 1] == "(" else 1
            while words[index] not in ("(", ";"):
                index += 1
            continue
        if word in TYPE_WORDS and not after_parameters:
            is_type = not has_parameters(words, index)
        elif word == "=":
            has_value = True
        if word in OPEN:
            end = past(words, index)
            # A body ends the declaration; a value in braces, a type's members or a member's initialiser do not.
            is_body = word == "{" and after_parameters and not has_value and words[end:end + 1] not in ([","], ["{"], [";"])
            after_parameters = after_parameters or word == "(" and not is_type
            index = end
            if is_body:
                return index
            continue
        if word in CLOSE:
            raise Unreadable(f"{word} closes nothing")
        index += 1
    raise Unreadable("a declaration does not end")


@functools.cache
def own_names(text: str, with_shared: bool = False) -> tuple[Name, ...]:
    """The names of `text`, a .cpp, that no other file of its library may have in the same namespace. `with_shared`: all names that `text`, a
    header, gives to namespaces. Raises Unreadable."""
    pairs = tokens(text)
    words, lines = [word for word, _ in pairs], [line for _, line in pairs]
    found: list[Name] = []
    scopes: list[str | None] = []  # "" for an anonymous namespace, None for extern "C".
    index = 0
    while index < len(words):
        begin = index
        try:
            if words[begin] == "}":
                if not scopes:
                    raise Unreadable("} closes nothing")
                scopes.pop()
                index += 1
            elif words[begin:begin + 3] == ["extern", '""', "{"]:
                scopes.append(None)
                index += 3
            elif opened := namespace_opened(words, begin):
                index, name = opened
                scopes.append(name)
            else:
                index = end_of_declaration(words, begin)
                names = declared(words[begin:index], with_shared or "" in scopes)
                scope = "::".join(name for name in scopes if name)
                found += [Name(scope, name, lines[begin], same_if, parameters) for name, same_if, parameters in names]
        except (Unreadable, IndexError) as error:
            raise Unreadable(f"line {lines[begin]}: {error}") from error
    if scopes:
        raise Unreadable(f"the file ends inside namespace {scopes[-1]}")
    return tuple(found)


def namespace_opened(words: list[str], begin: int) -> tuple[int, str] | None:
    """Where the inside of the namespace begins that `begin` opens, and the namespace's name; None when it opens none."""
    index = begin + (words[begin] == "inline")
    if words[index:index + 1] != ["namespace"]:
        return None
    index += 1
    name = ""
    while index < len(words) and (WORD.match(words[index]) or words[index] in ("::", "[")):
        if words[index] == "[":  # An attribute.
            index = past(words, index)
            continue
        name += words[index]
        index += 1
    return (index + 1, name) if words[index:index + 1] == ["{"] else None
