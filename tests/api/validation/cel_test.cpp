#include "api/validation/cel.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace trainyard::api::cel {
namespace {

using nlohmann::json;

const json& a_self() {
  static const json self = json::parse(R"({"n": 3, "text": "héllo", "list": [{"name": "a"}, {"name": "b", "x": 1}],
                                           "map": {"nvidia.com/gpu": 2, "k": "2"}, "no": false, "half": 0.5, "two": 2.0})");
  return self;
}

struct Rule {
  std::string_view text;
  bool is_kept;
};
void PrintTo(const Rule& rule, std::ostream* out) {
  *out << rule.text;
}

class KeepsRule : public testing::TestWithParam<Rule> {};

TEST_P(KeepsRule, AsTheApiServerFinds) {
  const auto is_kept = keeps_rule(GetParam().text, a_self(), nullptr);
  ASSERT_TRUE(is_kept) << is_kept.error().message;
  EXPECT_EQ(*is_kept, GetParam().is_kept);
}

INSTANTIATE_TEST_SUITE_P(
    Table, KeepsRule,
    testing::Values(
        Rule{"true", true}, Rule{"!self.no", true}, Rule{"self.n == 3 && self.n != 4", true},
        Rule{"self.n <= 2", false}, Rule{"self.n >= 3 && self.n < 4 && self.n > 2", true},
        Rule{"true || false && false", true}, Rule{"(true || false) && false", false},
        Rule{"self.n == 3 ? self.no : true", false}, Rule{"has(self.text)", true}, Rule{"has(self.absent)", false},
        Rule{"!has(self.absent) || self.absent == 1", true}, Rule{"self.absent == 1 || true", true},
        Rule{"true || self.absent == 1", true}, Rule{"self.absent == 1 && false", false},
        Rule{"size(self.text) == 5", true}, Rule{"size(self.list) == 2", true},
        Rule{"self.text.startsWith('h') && self.text.endsWith('o')", true}, Rule{"self.text.matches('l{2}o$')", true},
        Rule{"self.text.matches('^l')", false}, Rule{"('file:///a').substring(7) == '/a'", true},
        Rule{"self.text + '!' == 'héllo!'", true}, Rule{"1 + 2 == self.n", true},
        Rule{"self.n % 2 == 1 && 4 % 2 == 0 && 1 + 5 % 3 == 3", true}, Rule{"self.n in [1, 3]", true},
        Rule{"'x' in ['y']", false}, Rule{"'nvidia.com/gpu' in self.map", true},
        Rule{"string(self.map['nvidia.com/gpu']) == self.map['k']", true}, Rule{"string(self.two) == '2'", true},
        Rule{"string(self.half) == '0.5'", true}, Rule{"self.list.exists(c, c.name == 'b')", true},
        Rule{"self.list.all(c, c.name == 'b')", false}, Rule{"self.list.exists(c, c.x == 1)", true},
        Rule{"self.list.all(c, self.list.exists(d, d.name == c.name))", true},
        Rule{"self.map.all(key, !key.startsWith('x'))", true}, Rule{"self.map.exists(key, key == 'k')", true},
        // The name of a quantifier is gone after it, and `in` is a word.
        Rule{"self.list.all(c, has(c.name)) && !self.list.exists(c, c.name == 'c')", true},
        Rule{"self.list.exists(self, self.name == 'b') && self.n == 3", true}, Rule{"inner == 1 || true", true},
        Rule{"self.text.substring(6) == ''", true}, Rule{"self.n<4", true}, Rule{" true ", true},
        Rule{"[] == [] && 'a' in ['a' , 'b']", true}, Rule{"self.n > 3 || self.n < 3", false},
        Rule{"!(self.n < 3) && !(self.n > 3)", true}, Rule{"duration('90s') <= duration('1m30s')", true},
        Rule{"duration('1h') < duration('59m')", false},
        // An item without a value matters only if no other item decides.
        Rule{"self.list.all(c, c.x == 2)", false}, Rule{"self.list.all(c, has(c.x) && c.x == 1)", false},
        Rule{"self.no ? false : self.no ? false : true", true}, Rule{"true ? true : self.absent", true},
        Rule{"size(self.map) == 2 && size('') == 0 && size([]) == 0", true}, Rule{"self.n != 3", false},
        Rule{"'b' < 'a' || 'a' >= 'b'", false}, Rule{"self.half < self.n && self.two >= 2", true},
        Rule{"[].all(c, false) && ![].exists(c, true)", true}, Rule{"'absent' in self.map", false},
        Rule{"self.text.startsWith('é') || self.text.endsWith('l')", false}));

class HasNoValue : public testing::TestWithParam<std::string_view> {};

TEST_P(HasNoValue, AndSaysWhy) {
  const auto is_kept = keeps_rule(GetParam(), a_self(), nullptr);
  ASSERT_FALSE(is_kept);
  EXPECT_EQ(is_kept.error().kind, ErrorKind::invalid);
  EXPECT_FALSE(is_kept.error().message.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Table, HasNoValue,
    testing::Values("self.absent == 1", "self.absent == 1 || false", "unknown", "self.n", "self.n + 'a' == 'b'",
                    "self.n < 'a'", "self.n.startsWith('a')", "self.text.startsWith(1)", "self.text.unknown('a')",
                    "'a' in self.n", "self.map[1] == 2", "string(self.list) == ''",
                    "duration('soon') == duration('1s')", "unknown(self.n)", "self.n.all(c, true)",
                    "self.list.all(c, c.x == 1)", "self.list.all(c, true) && c == 1", "oldSelf.n == 3",
                    "size('1s') == 2 && size(self.no) == duration(1)", "self.text.substring(9) == ''",
                    "size(1, 2) == 1", "self.text.endsWith() == 1",
                    // Not CEL, or beyond what the rules use.
                    "", "self.", "self.n ==", "(true", "'open", "self.n == 3)", "has(self)", "self.list.all(1, true)",
                    "[1, 2", R"('a\n' == '')", "99999999999999999999 == 1", "self.list.exists(c, c.x == 2)",
                    "self.no ? true : self.absent", "!self.n", "self.map['absent'] == 1", "1 + 'a' == 2", "5 % 0 == 0",
                    "'a' % 2 == 0", "5 % 'a' == 0", "5 % == 0", "true in [true] && 'a' in 'abc'",
                    "self.n ? true : false", "self.text.substring('1') == ''", "true false", "self..n == 3",
                    "has(self.map['k'])", "self.list.all(c)"));

TEST(KeepsRule, ComparesWithTheStoredValue) {
  const json before{{"replicas", 2}, {"suspend", false}};
  const json after{{"replicas", 3}, {"suspend", false}};
  constexpr std::string_view rule = "self.replicas == oldSelf.replicas || oldSelf.suspend";
  EXPECT_TRUE(is_about_changes(rule));
  EXPECT_TRUE(*keeps_rule(rule, before, &before));
  EXPECT_FALSE(*keeps_rule(rule, after, &before));
  EXPECT_FALSE(is_about_changes("self.replicas == 2"));
}

TEST(FieldsOfSelf, AreThoseThatTheRuleReads) {
  EXPECT_EQ(fields_of_self("!has(self.a) || self.a.b == 'self' || self.c in [1]"), (std::set<std::string>{"a", "c"}));
  EXPECT_EQ(fields_of_self("itself.a == 1 && self.checkpoint.all(c, c.self == 2)"),
            (std::set<std::string>{"checkpoint"}));
  EXPECT_EQ(fields_of_self("self == 1 || itself.replicas == 2"), std::set<std::string>{});
}

}  // namespace
}  // namespace trainyard::api::cel
