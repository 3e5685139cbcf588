#!/usr/bin/env python3
"""Each rule of the layout finds what is planted against it in a small tree, and nothing in the tree as it was. Usage: rules_test.py"""

import json
import sys
import unittest

import error_rules
import initialiser_rules
import rules
from layout import Layout, count_arrows
from local_names import Unreadable, own_names
from tables import Arrow, Tables

TABLES = Tables(
    arrows={("examples", "worker"): Arrow("It does.", ("worker/train",), is_link=True),
            ("operator", "common"): Arrow("It does."), ("worker", "common"): Arrow("It does."),
            ("cli", "worker"): Arrow("It does.", ("worker/checkpoint/core",)), ("tests", "worker"): Arrow("It does.", only_from=("tests/worker",))},
    torch_users=("worker/", "tests/worker/", "examples/own/"),
    torch_free={"trainyard_communicator": "It is tested alone.", "trainyard_checkpoint_core": "The CLI reads checkpoints."},
    no_plan_headers={"common/logging.hpp": "it logs", "thread": "a plan has no threads"},
    pure=("operator/plan",), seen_by_pure=("operator/resource", "common"))


def header(*includes: str) -> str:
    return "#pragma once\n\n" + "".join(f'#include "{name}"\n' for name in includes)


def source(*includes: str, text: str = "") -> str:
    return "".join(f'#include "{name}"\n' for name in includes) + text


BASE = {
    "common/CMakeLists.txt": "trainyard_library(common SOURCES result.cpp)\n",
    "common/result.hpp": header(),
    "common/result.cpp": source("common/result.hpp"),
    "common/logging.hpp": header(),
    "common/try.hpp": header() + "#define TRY(...) (__VA_ARGS__)\n",
    "operator/plan/CMakeLists.txt": "# trainyard_library(gone SOURCES gone.cpp)\n"
                                    "trainyard_library(plan\n  SOURCES decide.cpp pod.cpp\n  PUBLIC trainyard_common)\n",
    "operator/plan/decide.hpp": header("common/result.hpp"),
    "operator/plan/decide.cpp": source("operator/plan/decide.hpp", text="namespace plan { namespace { int first() { return 1; } } }\n"),
    "operator/plan/pod.cpp": source(text="namespace plan { namespace { int second() { return 2; } } }\n"),
    "worker/CMakeLists.txt": "trainyard_library(communicator SOURCES dist/spread.cpp PUBLIC trainyard_common)  # Another folder's.\n",
    "worker/dist/CMakeLists.txt": "trainyard_torch_library(dist SOURCES group.cpp PUBLIC trainyard_communicator)\n"
                                  "add_executable(store main.cpp)\ntarget_link_libraries(store PRIVATE trainyard_common torch::cpu)\n",
    "worker/dist/communicator.hpp": header("worker/dist/spread.hpp"),
    "worker/dist/spread.hpp": header("common/result.hpp"),
    "worker/dist/spread.cpp": source("worker/dist/spread.hpp"),
    "worker/dist/group.hpp": header("worker/dist/communicator.hpp"),
    "worker/dist/group.cpp": source("worker/dist/group.hpp", text="#include <torch/types.h>\n"),
    "worker/dist/main.cpp": source("worker/dist/group.hpp", text="int main() {}\n"),
    "worker/checkpoint/core/CMakeLists.txt": "trainyard_library(checkpoint_core SOURCES run.cpp PUBLIC trainyard_communicator)\n",
    "worker/checkpoint/core/run.hpp": header("worker/dist/communicator.hpp"),
    "worker/checkpoint/core/run.cpp": source("worker/checkpoint/core/run.hpp"),
    "worker/train/CMakeLists.txt": "trainyard_torch_library(train SOURCES train.cpp PUBLIC trainyard_dist)\n"
                                   "add_library(trainyard::train ALIAS trainyard_train)\n"
                                   "target_include_directories(trainyard_train PUBLIC ${CMAKE_SOURCE_DIR}/worker/include)\n",
    "worker/train/train.hpp": header("worker/dist/group.hpp"),
    "worker/train/train.cpp": source("worker/train/train.hpp"),
    "worker/include/trainyard/trainyard.hpp": header("worker/train/train.hpp"),
    "cli/CMakeLists.txt": "trainyard_library(cli SOURCES show.cpp PRIVATE trainyard_checkpoint_core)\n",
    "cli/show.cpp": source("worker/checkpoint/core/run.hpp"),
    "examples/own/CMakeLists.txt": "add_executable(own own.cpp)\ntarget_link_libraries(own PRIVATE trainyard::train)\n",
    "examples/own/own.cpp": source(),
    "tests/tidy/CMakeLists.txt": "set(torch_free_folders checkpoint/core)\n",
    "tests/worker/CMakeLists.txt": "trainyard_test(train_test TORCH\n  SOURCES train_test.cpp\n  LINK trainyard_train TIMEOUT 60)\n",
    "tests/worker/train_test.cpp": "#include <trainyard/trainyard.hpp>\n#include <torch/types.h>\n",
}

RUN, DECIDE, POD = "worker/checkpoint/core/run.cpp", "operator/plan/decide.cpp", "operator/plan/pod.cpp"
RUN_TEXT = BASE[RUN]


def trying(statement: str) -> dict[str, str]:
    """The change that makes POD a file of one function with `statement`."""
    return {POD: source("common/try.hpp", text="namespace plan {\nResult<int> f() {\n  " + statement + "\n}\n}\n")}


def constructing(initialisers: str) -> dict[str, str]:
    """The change that makes POD a file of one class with these initialisers."""
    return {POD: "namespace plan {\nA::A(int x) noexcept : " + initialisers + " {}\n}\n"}


# The rule, what is planted, and what the rule says of it.
PLANTED = [
    (rules.files_without_a_target, {"storage/store.cpp": ""},
     "storage/store.cpp belongs to no target: no CMakeLists.txt names it, and its folder is that of no library"),
    (rules.files_without_a_target, {"worker/core/run.hpp": header()},
     "worker/core/run.hpp belongs to no target: no CMakeLists.txt names it, and its folder is that of no library"),
    (rules.files_without_a_target, {"common/result.cpp": None}, "trainyard_common has the source common/result.cpp, which does not exist"),
    (rules.files_without_a_target, {"cli/CMakeLists.txt": BASE["cli/CMakeLists.txt"] + "add_executable(show show.cpp)\n"},
     "cli/show.cpp belongs to two targets, trainyard_cli and show"),
    (rules.includes_without_a_link, {"worker/checkpoint/core/CMakeLists.txt": "trainyard_library(checkpoint_core SOURCES run.cpp)\n"},
     "worker/checkpoint/core/run.hpp includes worker/dist/communicator.hpp, but trainyard_checkpoint_core does not link trainyard_communicator"),
    (rules.includes_without_a_link, {RUN: RUN_TEXT + '#include "worker/dist/group.hpp"\n'},
     f"{RUN} includes worker/dist/group.hpp, but trainyard_checkpoint_core does not link trainyard_dist"),
    (rules.includes_without_a_link, {RUN: RUN_TEXT + "#include <trainyard/trainyard.hpp>\n"},
     f"{RUN} includes trainyard/trainyard.hpp, but trainyard_checkpoint_core does not link trainyard_train"),
    # A library that is linked PRIVATE is not visible to those who link its user.
    (rules.includes_without_a_link,
     {"tests/cli/CMakeLists.txt": "trainyard_test(cli_test SOURCES cli_test.cpp LINK trainyard_cli)\n",
      "tests/cli/cli_test.cpp": source("common/result.hpp")},
     "tests/cli/cli_test.cpp includes common/result.hpp, but cli_test does not link trainyard_common"),
    (rules.torch_out_of_place, {POD: "#include <torch/types.h>\n"}, f"{POD} includes torch/types.h: only worker/, tests/worker/, examples/own/ may"),
    (rules.torch_out_of_place, {RUN: RUN_TEXT + "#include <ATen/Tensor.h>\n"},
     f"{RUN} includes ATen/Tensor.h, but trainyard_checkpoint_core does not link torch"),
    (rules.torch_out_of_place, {"worker/dist/spread.hpp": header("c10/util/Optional.h")},
     "worker/dist/spread.hpp includes c10/util/Optional.h, but trainyard_communicator does not link torch"),
    (rules.torch_out_of_place,
     {"worker/checkpoint/core/CMakeLists.txt": "trainyard_torch_library(checkpoint_core SOURCES run.cpp PUBLIC trainyard_communicator)\n"},
     "trainyard_checkpoint_core links torch, but TORCH_FREE names it: The CLI reads checkpoints."),
    (rules.torch_out_of_place, {"cli/CMakeLists.txt": "trainyard_library(cli SOURCES show.cpp PRIVATE trainyard_checkpoint_core trainyard_train)\n"},
     "trainyard_cli links torch: only the targets of worker/, tests/worker/, examples/own/ may"),
    (rules.torch_out_of_place, {"worker/data/CMakeLists.txt": "trainyard_library(data SOURCES data.cpp)\n", "worker/data/data.cpp": ""},
     "trainyard_data links no torch: name it in TORCH_FREE"),
    (rules.torch_out_of_place, {"worker/checkpoint/core/CMakeLists.txt": None}, "TORCH_FREE names trainyard_checkpoint_core, which is no target"),
    (rules.headers_compiled_with_torch, {"tests/tidy/CMakeLists.txt": "set(torch_free_folders )\n"},
     "torch_free_folders of tests/tidy/CMakeLists.txt lacks worker/checkpoint/core, of which no target links torch"),
    (rules.headers_compiled_with_torch, {"tests/tidy/CMakeLists.txt": "set(torch_free_folders checkpoint/core dist)\n"},
     "torch_free_folders of tests/tidy/CMakeLists.txt names worker/dist, of which some target links torch"),
    (rules.arrows_out_of_table, {"common/result.cpp": source("common/result.hpp", "operator/plan/decide.hpp")},
     "common/result.cpp includes operator/plan/decide.hpp: ARROWS has none from common/ to operator/"),
    (rules.arrows_out_of_table, {"cli/show.cpp": source("worker/checkpoint/core/run.hpp", "worker/dist/spread.hpp")},
     "cli/show.cpp includes worker/dist/spread.hpp: the arrow from cli/ to worker/ leads only to worker/checkpoint/core"),
    (rules.arrows_out_of_table, {"operator/plan/decide.hpp": header()}, "ARROWS lets operator/ include common/, which nothing does: take it out"),
    (rules.arrows_out_of_table, {"cli/show.cpp": source("worker/dist/spread.hpp")},
     "ARROWS lets cli/ include worker/checkpoint/core/, which nothing does: take it out"),
    (rules.arrows_out_of_table, {"common/CMakeLists.txt": "trainyard_library(common SOURCES result.cpp PRIVATE trainyard_plan)\n"},
     "trainyard_common links trainyard_plan: ARROWS has none from common/ to operator/"),
    (rules.arrows_out_of_table, {"examples/own/own.cpp": source("worker/train/train.hpp")},
     "examples/own/own.cpp includes worker/train/train.hpp: examples/ only links worker/"),
    (rules.arrows_out_of_table, {"examples/own/CMakeLists.txt": "add_executable(own own.cpp)\n"},
     "ARROWS lets examples/ include worker/train/, which nothing does: take it out"),
    (rules.arrows_out_of_table,
     {"tests/cli/CMakeLists.txt": "trainyard_test(cli_test SOURCES cli_test.cpp LINK trainyard_communicator)\n",
      "tests/cli/cli_test.cpp": source("worker/dist/spread.hpp")},
     "tests/cli/cli_test.cpp includes worker/dist/spread.hpp: the arrow from tests/ to worker/ begins only in tests/worker"),
    (rules.arrows_out_of_table, {"tests/worker/train_test.cpp": "#include <torch/types.h>\n"},
     "ARROWS lets tests/worker/ include worker/, which nothing there does: take it out"),
    (rules.cycles, {"common/CMakeLists.txt": "trainyard_library(common SOURCES result.cpp PRIVATE trainyard_plan)\n"},
     "libraries need each other: trainyard_common -> trainyard_plan -> trainyard_common"),
    (rules.cycles, {"common/result.cpp": source("common/result.hpp", "operator/plan/decide.hpp")},
     "libraries need each other: trainyard_common -> trainyard_plan -> trainyard_common"),
    (rules.cycles, {"worker/train/train.cpp": source("worker/train/train.hpp", "worker/include/trainyard/trainyard.hpp")},
     "folders need each other: worker/include/trainyard -> worker/train -> worker/include/trainyard"),
    (rules.shared_own_names, {POD: "\nnamespace plan {\nnamespace {\nint first(int) { return 2; }\n}\n}\n"},
     f"{DECIDE}:2 and {POD}:4 of trainyard_plan each have a plan::first: share it, or rename one"),
    (rules.shared_own_names, {POD: "namespace plan {\nstatic int first() { return 2; }\n}\n"},
     f"{DECIDE}:2 and {POD}:2 of trainyard_plan each have a plan::first: share it, or rename one"),
    (rules.own_names_of_unseen_headers, {POD: "namespace plan { namespace {\nstruct Result {};\n} }\n",
                                         "operator/plan/decide.hpp": header() + "namespace plan { struct Result { int kind; }; }\n"},
     f"{POD}:2 has a plan::Result of its own, and operator/plan/decide.hpp of another file of trainyard_plan gives one"),
    (rules.own_names_of_unseen_headers, {POD: "namespace plan { namespace { int third(const Pod& pod, int = 3); } }\n",
                                         "operator/plan/decide.hpp": header() + "namespace plan { int third(const Pod&, int count); }\n"},
     f"{POD}:1 has a plan::third of its own, and operator/plan/decide.hpp of another file of trainyard_plan gives one"),
    (rules.unreadable_files, {POD: "namespace plan {\n"}, f"{POD}: the file ends inside namespace plan"),
    (rules.effects_in_plan, {POD: source("common/logging.hpp")}, f"{POD} includes common/logging.hpp: it logs"),
    (rules.effects_in_plan, {POD: "#include <thread>\n"}, f"{POD} includes thread: a plan has no threads"),
    (rules.effects_in_plan, {POD: source("operator/kube/api.hpp")},
     f"{POD} includes operator/kube/api.hpp: a plan sees only operator/plan, operator/resource, common"),
    (rules.effects_in_plan, {POD: "auto now = std::chrono::steady_clock::now();\n"}, f"{POD} reads a clock"),
    (rules.forbidden_headers_that_do_not_exist, {"common/logging.hpp": None}, "NO_PLAN_HEADERS forbids common/logging.hpp, which does not exist"),
    (rules.own_header_not_first, {DECIDE: source("common/result.hpp", "operator/plan/decide.hpp")},
     f"{DECIDE} does not include operator/plan/decide.hpp first"),
    (rules.own_header_not_first, {DECIDE: ""}, f"{DECIDE} does not include operator/plan/decide.hpp first"),
    (rules.headers_without_pragma_once, {"common/result.hpp": "struct Result;\n"}, "common/result.hpp does not begin with #pragma once"),
    (rules.long_files, {POD: "\n" * 501}, f"{POD} has 501 lines: is it one concept?"),
    (rules.skipped_tests, {"tests/worker/train_test.cpp": "void f() { GTEST_SKIP(); }\n"},
     "tests/worker/train_test.cpp skips a test: use tests/skips.hpp"),
    *((error_rules.tries_within_expressions, trying(statement),
       f"{POD}:4 has a TRY within an expression: give its value a name in a statement before")
      for statement in ("return TRY(g());", "h(TRY(g()));", "TRY(g(TRY(h())));", "const int a = 1 + TRY(g());", "const int a = TRY(g()) + 1;",
                        "S s{.a = TRY(g())};", "S s{.a = TRY(g()), .b = 1};", "if (TRY(g()) == 1) return 2;", "auto h = [a = TRY(g())] {};",
                        "const int a{TRY(g())};", "if (a == TRY(g())) return 2;", "TRY(g()).h();")),
    (error_rules.tries_without_their_header, {POD: "Result<int> f() { TRY(g()); }\n"}, f"{POD} uses TRY and does not include common/try.hpp"),
    (error_rules.tries_without_their_header, {POD: source("common/try.hpp")}, f"{POD} includes common/try.hpp and uses no TRY"),
    *((error_rules.tries_without_their_header, {"operator/plan/decide.hpp": header(*names) + text},
       "operator/plan/decide.hpp is a header and has to do with common/try.hpp: only .cpp files may use TRY")
      for names, text in ((("common/try.hpp",), ""), ((), "Result<int> f() { TRY(g()); }\n"))),
    *((error_rules.errors_forwarded_without_try, trying(statement), f"{POD}:4 forwards the error of x: use TRY")
      for statement in ("if (!x) return tl::unexpected(x.error());", "if (auto x = g(); !x) return tl::unexpected(x.error());", "if (!x) return x;",
                        "if (!x) { return tl::unexpected(x.error()); }", "if (auto x = g(); !x) return x;")),
    (error_rules.errors_spelled_otherwise, trying("return tl::make_unexpected(problem);"),
     f"{POD}:4 makes an unexpected value otherwise than by tl::unexpected(error)"),
    (error_rules.errors_spelled_otherwise, trying("return tl::unexpected{problem};"),
     f"{POD}:4 makes an unexpected value otherwise than by tl::unexpected(error)"),
    *((initialiser_rules.members_initialised_by_parentheses, constructing(initialisers),
       f"{POD}:2 initialises {member} by parentheses: use braces, or end the line with \"// Braces would ...\"")
      for initialisers, member in (("a_(x)", "a_"), ("std::vector<int>(x), b_{1}, a_(x)", "a_"), ("a_{1}, b_(f({x}))", "b_"), ("count(x)", "count"))),
    (rules.open_ends, {POD: "// TO" "DO: more\n"}, f"{POD} leaves something open"),
]


def tree(changes: dict[str, str | None]) -> Layout:
    return Layout({path: text for path, text in (BASE | changes).items() if text is not None}, TABLES)


class Rules(unittest.TestCase):
    maxDiff = None

    def test_a_tree_that_keeps_them_breaks_none(self) -> None:
        for rule in rules.RULES:
            with self.subTest(rule.__name__):
                self.assertEqual(list(rule(tree({}))), [])

    def test_each_finds_what_is_planted(self) -> None:
        for rule, changes, sentence in PLANTED:
            with self.subTest(sentence):
                self.assertIn(sentence, list(rule(tree(changes))))

    def test_each_has_something_planted(self) -> None:
        self.assertEqual({rule for rule, _, _ in PLANTED}, set(rules.RULES))

    def test_where_a_try_may_be_written_and_which_forwards_use_the_error(self) -> None:
        for statement in ("TRY(g());", "const std::vector<int> a = TRY(g({1, 2}));", "auto [a, b] = TRY(g());", "a[0] = TRY(g());", "*a() = TRY(g());",
                          "a->b = TRY(g());", "if (a) TRY(g());", "if (a) { TRY(g()); }", "if (a) h(); else TRY(g());",
                          "const int a = TRY(g([] { const int b = TRY(h()); return b; }));"):
            with self.subTest(statement):
                self.assertEqual(list(error_rules.tries_within_expressions(tree(trying(statement)))), [])
        for statement in ("if (!x && is_damage(x.error().kind)) return tl::unexpected(x.error());", "if (!x) return tl::unexpected(y.error());",
                          "if (!x) return fail(\"doing it\", x.error());", "if (!x) { h(); return tl::unexpected(x.error()); }"):
            with self.subTest(statement):
                self.assertEqual(list(error_rules.errors_forwarded_without_try(tree(trying(statement)))), [])

    def test_where_parentheses_may_initialise(self) -> None:
        for initialisers in ("a_{x}", "Base(x), a_{f(x)}", "ns::base(x)", "A(x, 1)", "a_(x)  // Braces would make a list.\n"):
            with self.subTest(initialisers):
                self.assertEqual(list(initialiser_rules.members_initialised_by_parentheses(tree(constructing(initialisers)))), [])
        statement = {POD: "namespace plan { int f(int x) { return (x) ? (x) : g(x); } }\n"}
        self.assertEqual(list(initialiser_rules.members_initialised_by_parentheses(tree(statement))), [])

    def test_a_folder_of_a_known_name_elsewhere_is_not_the_library_of_that_name(self) -> None:
        layout = tree({"worker/common/text.hpp": header()})
        self.assertEqual((layout.owner("worker/common/text.hpp"), layout.owner("common/result.hpp")), ("", "trainyard_common"))

    def test_a_header_belongs_to_its_source_then_to_the_library_of_its_name_then_to_that_of_its_folder(self) -> None:
        layout = tree({"worker/dist/store.hpp": header()})
        headers = ("dist/spread.hpp", "dist/communicator.hpp", "dist/store.hpp", "include/trainyard/trainyard.hpp")
        owners = {name: layout.owner(f"worker/{name}") for name in headers}
        self.assertEqual(owners, {"dist/spread.hpp": "trainyard_communicator", "dist/communicator.hpp": "trainyard_communicator",
                                  "dist/store.hpp": "trainyard_dist", "include/trainyard/trainyard.hpp": "trainyard_train"})

    def test_arrows_are_counted_by_includes(self) -> None:
        self.assertEqual(count_arrows(tree({})), {("cli", "worker"): 1, ("operator", "common"): 1, ("tests", "worker"): 1, ("worker", "common"): 1})

    def test_a_target_that_nothing_has_made_is_not_passed_over(self) -> None:
        with self.assertRaisesRegex(ValueError, "cli/CMakeLists.txt: target_link_libraries names gone before anything makes it"):
            tree({"cli/CMakeLists.txt": "target_link_libraries(gone PRIVATE x)\n"})


class Build(unittest.TestCase):
    def differences(self, *files: tuple[str, str], batches: dict[str, str] | None = None) -> list[str]:
        commands = [{"command": f"c++ -o x/CMakeFiles/{target}.dir/x.cpp.o -c {file}", "file": file} for target, file in files]
        few = Layout({path: BASE[path] for path in BASE if path.startswith(("common/", "worker/checkpoint/"))}, TABLES)
        return list(rules.differences_to_the_build(few, json.dumps(commands), batches or {}, "/tree"))

    def test_a_batch_builds_what_it_includes(self) -> None:
        batch = ("trainyard_common", "/build/batch_0.cpp")
        self.assertEqual(self.differences(batch, batches={"/build/batch_0.cpp": '#include "common/result.cpp"\n'}), [])

    def test_a_source_that_is_not_built_is_named_but_for_the_worker_without_it(self) -> None:
        headers = ("trainyard_torch_headers", "/tree/worker/headers/precompiled.cpp")
        common = ("trainyard_common", "/tree/common/result.cpp")
        self.assertEqual(self.differences(), ["no target builds common/result.cpp"])
        self.assertEqual(self.differences(headers, common), [f"no target builds {RUN}"])

    def test_a_source_that_another_target_builds_is_named(self) -> None:
        self.assertEqual(self.differences(("other", "/tree/common/result.cpp")), ["common/result.cpp is built by other, not by trainyard_common"])


# A text in `namespace {`, and the names that it keeps to itself.
OWN = [
    ("int f() { return g(1, {2}); }", ["f"]),
    ("int f(int a);\nint f(int a) { return a; }", ["f", "f"]),
    ("template <typename T, typename = std::enable_if_t<(sizeof(T) > 1)>>\nT f(T a) { return a; }", ["f"]),
    ("Result<std::map<std::string, int>> f() { return {}; }", ["f"]),
    ("auto f(int a) -> decltype(a + 1) { return a; }", ["f"]),
    ("[[nodiscard]] __attribute__((target(\"sse4.2\"))) bool f() noexcept { return true; }", ["f"]),
    ("template <typename T>\n  requires(sizeof(T) > 1)\nint f() { return 1; }", ["f"]),
    ("constexpr std::array<int, 2> a{1, 2};", ["a"]),
    ("constexpr int a = 1 << 2, b = 3;", ["a", "b"]),
    ("const std::regex a{R\"(\"namespace { int x; })\"};", ["a"]),
    ("constexpr char a[] = \"}\\\" {\", b = '\"', c = '{';", ["a", "b", "c"]),
    ("constexpr auto a = 1'000'000;", ["a"]),
    ("int (*a)(int) = nullptr;", ["a"]),
    ("const auto a = [](int x) { return x; };", ["a"]),
    ("struct S { int a; int f() { return a; } };", ["S"]),
    ("struct S final : public Base<int> { S() : Base{1}, a_{2} {} int a_; };", ["S"]),
    ("enum class E : int { a, b };", ["E"]),
    ("struct S;", []),
    ("class S::Nested { int a; };", []),
    ("S::S(int a) : a_{a}, b_(a) {}", []),
    ("int S::f() const { return 1; }", []),
    ("bool operator==(const S& a, const S& b) { return true; }", []),
    ("using std::chrono::seconds;\nusing namespace std::chrono_literals;", []),
    ("using A = std::map<int, int>;\nnamespace fs = std::filesystem;", ["A", "fs"]),
    ("static_assert(sizeof(int) == 4);", []),
    ("// int f() {\n/* int g() { */ int h() { return '\"'; }", ["h"]),
    ("// a comment that goes on \\\nint f() {\nint g();", ["g"]),
    ("#define OPEN {\n#define MORE \\\n  int f() {\n#if 1\nint g();\n#endif\n", ["g"]),
    ("TEST(Thing, Does) {\n  int f = 1;\n}\nMACRO(Thing)\nint g();", ["g"]),
    ("  # define OPEN {\nint g();", ["g"]),
    ("const int a = b[c[0]], d = e[[] { return 0; }()];", ["a", "d"]),
    ("struct [[nodiscard]] S { int a; };\nnamespace [[deprecated]] inner { int f(); }", ["S", "f"]),
    ("struct stat f(int a) { return {}; }\nint g();", ["f", "g"]),
    ("struct alignas(64) S { int a = f(1); };\nint g();", ["S", "g"]),
    ("struct sockaddr a{};\nint g();", ["a", "g"]),
    ("using std::string_literals::operator\"\"s;\nint f() { return 1; }", ["f"]),
    ("int S::operator()(int a) const { return a; }\nint f() { return 1; }", ["f"]),
    ("thread_local int a;", ["a"]),
    ("unsigned long a = 1;", ["a"]),
]


class OwnNames(unittest.TestCase):
    def test_of_an_anonymous_namespace(self) -> None:
        for text, names in OWN:
            with self.subTest(text):
                found = own_names(f"namespace outer {{\nnamespace {{\n{text}\n}}\n}}\n")
                self.assertEqual([name.name for name in found], names)
                self.assertLessEqual({name.scope for name in found}, {"outer", "outer::inner"})

    def test_names_of_a_named_namespace_are_local_if_static_constant_or_a_type(self) -> None:
        found = own_names("namespace a::b {\nint f() { return 1; }\nstatic int g() { return 1; }\nconst int c = 1;\ninline constexpr int d = 1;\n"
                          "extern const int e;\nstruct S {};\n}\nstatic int h;\n")
        self.assertEqual([(name.scope, name.name, name.line) for name in found], [("a::b", "g", 3), ("a::b", "c", 4), ("a::b", "S", 7), ("", "h", 9)])

    def test_of_functions_have_the_types_of_their_parameters(self) -> None:
        for parameters, types in (("", ""), ("int", "int"), ("const int& a, std::map<int, S> b = {1, 2}", "const int &, std :: map < int , S >"),
                                  ("std::function<void(int, int)> f, S*", "std :: function < void ( int , int ) >, S *"),
                                  ("std::string", "std :: string")):
            with self.subTest(parameters):
                self.assertEqual([name.parameters for name in own_names(f"static int f({parameters}) {{ return 1; }}")], [types])

    def test_of_one_alias_may_meet(self) -> None:
        def names(first: str, second: str) -> list[str]:
            return list(rules.shared_own_names(tree({DECIDE: f"namespace {{ {first} }}", POD: f"namespace {{ {second} }}"})))
        self.assertEqual(names("namespace fs = std::filesystem;", "namespace fs = std::filesystem;"), [])
        self.assertEqual(len(names("using Clock = std::chrono::steady_clock;", "using Clock = std::chrono::system_clock;")), 1)
        self.assertEqual(len(names("using Clock = Steady;", "struct Clock {};")), 1)

    def test_may_have_the_name_of_a_header_for_other_parameters_and_of_one_that_the_file_sees(self) -> None:
        decide = {"operator/plan/decide.hpp": header() + "namespace plan { int third(const Pod&); }\n"}
        other = {POD: "namespace plan { namespace { int third(const std::map<int, Pod>& pod, int a); } }\n"}
        seen = {POD: '#include "operator/plan/decide.hpp"\nnamespace plan { namespace { int third(const Pod& pod); } }\n'}
        for changes in (other, seen):
            self.assertEqual(list(rules.own_names_of_unseen_headers(tree(decide | changes))), [])

    def test_of_two_namespaces_do_not_meet(self) -> None:
        self.assertEqual(list(rules.shared_own_names(tree({POD: "namespace plan::inner { namespace { int first(); } }"}))), [])

    def test_of_a_text_that_cannot_be_followed_are_refused(self) -> None:
        for text in ("namespace a {", "}", "int f() {", "int f(};", "int a"):
            with self.subTest(text), self.assertRaises(Unreadable):
                own_names(text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
