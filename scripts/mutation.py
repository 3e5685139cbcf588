"""Rewrites a C++ source so that it holds many mutants, each of which a variable of the environment switches on (tests/mutants/mutation.hpp).

One build then serves all mutants of a folder ("mutant schemata": Untch, Offutt, Harrold, 1993). A line of the result holds what the same line of
the source holds, so that a compiler's message points at the source.
"""

import dataclasses

import tree_sitter
import tree_sitter_cpp

PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_cpp.language()))

LOGICAL = {b"&&", b"||", b"and", b"or"}
BOUNDARY = {b"<": "<=", b"<=": "<", b">": ">=", b">=": ">"}
COMPARISONS = {b"==", b"!=", *BOUNDARY}
STATEMENTS = {"call_expression", "assignment_expression", "update_expression"}
# Expressions that the compiler must know: there, no value may depend on the environment.
CONSTANT = {"template_argument_list", "static_assert_declaration", "enumerator", "case_statement_label", "preproc_if", "preproc_def",
            "preproc_function_def", "attribute_declaration", "noexcept", "decltype", "bitfield_clause", "requires_clause", "array_declarator",
            "concept_definition", "alias_declaration", "template_parameter_list", "field_declaration"}


@dataclasses.dataclass(frozen=True)
class Mutant:
    number: int
    file: str
    line: int
    last_line: int
    change: str  # what it does, in words


class Rewriter:
    """Rewrites one source. Mutants get the numbers from `first` on; those of `refused` (see `key`) are left out."""

    def __init__(self, file: str, text: bytes, first: int, refused: set[str]) -> None:
        self.file, self.text, self.next, self.refused = file, text, first, refused
        self.mutants: list[Mutant] = []
        self.duplicate = 0

    def rewritten(self) -> str:
        root = PARSER.parse(self.text).root_node
        body = self.text[:root.start_byte].decode() + self.render(root)
        return f'#include "tests/mutants/mutation.hpp"\n#line 1 "{self.file}"\n{body}'

    def number(self, node, *changes: str) -> int:
        """The first of the numbers for `changes` of a node, or 0 when they were refused before."""
        if self.duplicate or key(self.file, node.start_point[0] + 1, changes[0]) in self.refused:
            return 0
        first = self.next
        for change in changes:
            self.mutants.append(Mutant(self.next, self.file, node.start_point[0] + 1, node.end_point[0] + 1, change))
            self.next += 1
        return first

    def render(self, node, wrapped: bool = False) -> str:
        """The text of `node` with its mutants. `wrapped`: its truth was already given mutants by the caller."""
        if is_constant(node):
            return node.text.decode()
        kind = node.type
        if kind == "case_statement":
            return self.pieces(node, as_is=node.child_by_field_name("value"))
        if kind == "if_statement" and any(child.type == "constexpr" for child in node.children):
            return self.pieces(node, as_is=node.child_by_field_name("condition"))
        if kind in ("if_statement", "while_statement", "conditional_expression", "do_statement", "for_statement"):
            return self.pieces(node, condition=node.child_by_field_name("condition"))
        if kind == "parenthesized_expression" and wrapped:
            return f"({self.render(node.named_child(0), wrapped=True)})"
        if kind == "binary_expression" or kind == "unary_expression" and node.child(0).type in ("!", "not"):
            return self.expression(node, wrapped)
        if kind == "expression_statement":
            return self.statement(node)
        if kind == "return_statement" and node.named_child_count == 1 and node.named_child(0).type in ("true", "false"):
            return self.flipped(node)
        if kind == "number_literal" or kind == "user_defined_literal" and node.child(0).type == "number_literal":
            return self.literal(node)
        return self.pieces(node)

    def pieces(self, node, condition=None, of="", as_is=None) -> str:
        """The text of `node`, part by part. `condition`: the part that decides what is run, in a statement of kind `of`; `as_is`: a part without
        mutants."""
        out, at = [], node.start_byte
        for child in node.children:
            out.append(self.text[at:child.start_byte].decode())
            if child == as_is:
                out.append(child.text.decode())
            else:
                out.append(self.condition(child, of or node.type) if child == condition else self.render(child))
            at = child.end_byte
        out.append(self.text[at:node.end_byte].decode())
        return "".join(out)

    def condition(self, node, of: str) -> str:
        if node.type == "condition_clause":  # (expression), or (initializer; expression), or (declaration)
            value = node.child_by_field_name("value")
            if value is None or value.type == "declaration":
                return self.pieces(node)
            return self.pieces(node, condition=value, of=of)
        if node.type == "parenthesized_expression":
            return self.pieces(node, condition=node.named_child(0), of=of)
        if node.type in ("true", "false", "declaration"):
            return self.render(node)
        text = shortened(node)
        if of in ("for_statement", "while_statement", "do_statement"):  # Without an end, the loop would only show that a test waits for it.
            number = self.number(node, f"never: {text}")
            return f"mutation::forced({number}, bool({self.render(node, wrapped=True)}), false)" if number else self.render(node, wrapped=True)
        number = self.number(node, f"always: {text}", f"never: {text}")
        return f"mutation::condition({number}, bool({self.render(node, wrapped=True)}))" if number else self.render(node, wrapped=True)

    def expression(self, node, wrapped: bool) -> str:
        if node.type == "unary_expression":
            return self.truth(node, self.pieces(node), wrapped)
        operator = node.child_by_field_name("operator").text
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if operator in LOGICAL:
            all_of = operator in (b"&&", b"and")
            return self.truth(node, self.operand(left, all_of) + self.between(left, right) + self.operand(right, all_of), wrapped)
        if operator not in COMPARISONS:
            return self.pieces(node)
        text = self.render(left) + self.between(left, right) + self.render(right)
        if operator in BOUNDARY:
            number = self.number(node, f"{BOUNDARY[operator]} for {operator.decode()}: {shortened(node)}")
            if number:
                self.duplicate += 1
                other = f"{self.render(left)} {BOUNDARY[operator]} {self.render(right)}".replace("\n", " ")
                self.duplicate -= 1
                text = f"(mutation::on({number}) ? bool({other}) : bool({text}))"
        return self.truth(node, text, wrapped)

    def truth(self, node, text: str, wrapped: bool) -> str:
        if wrapped:
            return text
        number = self.number(node, f"true: {shortened(node)}", f"false: {shortened(node)}")
        return f"mutation::condition({number}, bool({text}))" if number else text

    def operand(self, node, all_of: bool) -> str:
        """An operand of && or ||, which a mutant leaves out. Where the operand is again an && or ||, its own operands are left out."""
        inner = node
        while inner.type == "parenthesized_expression":
            inner = inner.named_child(0)
        if inner.type == "binary_expression" and inner.child_by_field_name("operator").text in LOGICAL:
            if (inner.child_by_field_name("operator").text in (b"&&", b"and")) == all_of:
                return self.render(node, wrapped=True)
        number = self.number(node, f"left out: {shortened(node)}")
        if not number:
            return self.render(node, wrapped=True)
        return f"mutation::forced({number}, bool({self.render(node, wrapped=True)}), {'true' if all_of else 'false'})"

    def between(self, left, right) -> str:
        return self.text[left.end_byte:right.start_byte].decode()

    def statement(self, node) -> str:
        inner = node.named_child(0) if node.named_child_count else None
        if inner is None or inner.type not in STATEMENTS or is_macro(inner):
            return self.pieces(node)
        number = self.number(node, f"left out: {shortened(node)}")
        return f"{{ if (!mutation::on({number})) {self.pieces(node)} }}" if number else self.pieces(node)

    def flipped(self, node) -> str:
        value = node.named_child(0).type == "true"
        number = self.number(node, f"the opposite: {shortened(node)}")
        return f"return mutation::forced({number}, {str(value).lower()}, {str(not value).lower()});" if number else node.text.decode()

    def literal(self, node) -> str:
        number = self.number(node, f"more than {node.text.decode()}: {shortened(node.parent)}")
        return f"mutation::more({number}, {node.text.decode()})" if number else node.text.decode()


def is_macro(call) -> bool:
    name = call.child_by_field_name("function")
    return name is not None and name.text.decode().isupper()


def is_constant(node) -> bool:
    if node.type in CONSTANT:
        return True
    if node.type in ("function_definition", "declaration"):
        words = [child.text for child in node.children if child.type in ("type_qualifier", "storage_class_specifier")]
        return any(word in (b"constexpr", b"consteval", b"constinit") for word in words)
    return False


def shortened(node) -> str:
    text = " ".join(node.text.decode().split())
    return text if len(text) <= 90 else text[:87] + "..."


def key(file: str, line: int, change: str) -> str:
    return f"{file}:{line}: {change}"


def rewrite(file: str, text: bytes, first: int, refused: set[str]) -> tuple[str, list[Mutant]]:
    """The text with the mutants of `file`, numbered from `first`, and the mutants. `refused`: keys of what did not compile."""
    rewriter = Rewriter(file, text, first, refused)
    result = rewriter.rewritten()
    return result, rewriter.mutants
