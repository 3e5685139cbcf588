#include "api/yaml/yaml.hpp"

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <string>

namespace trainyard::api {
namespace {

using nlohmann::json;

struct Scalar {
  std::string yaml;
  std::string as_json;
};
void PrintTo(const Scalar& scalar, std::ostream* out) {
  *out << scalar.yaml << " is " << scalar.as_json;
}

class ParseYamlScalar : public testing::TestWithParam<Scalar> {};

TEST_P(ParseYamlScalar, IsTypedAsKubectlDoes) {
  const auto documents = parse_yaml("value: " + GetParam().yaml);
  ASSERT_TRUE(documents) << documents.error().message;
  // As text, since json's == takes -6101065172474983726 for 12345678901234567890.
  EXPECT_EQ(documents->at(0).at("value").dump(), json::parse(GetParam().as_json).dump());
}

// The values are those of `kubectl create --dry-run=client -o json`, Kubernetes 1.36.
INSTANTIATE_TEST_SUITE_P(
    Table, ParseYamlScalar,
    testing::Values(
        Scalar{"yes", "true"}, Scalar{"y", "true"}, Scalar{"On", "true"}, Scalar{"TRUE", "true"}, Scalar{"N", "false"},
        Scalar{"off", "false"}, Scalar{"tRue", R"("tRue")"}, Scalar{"~", "null"}, Scalar{"Null", "null"},
        Scalar{"", "null"}, Scalar{"'null'", R"("null")"}, Scalar{R"("yes")", R"("yes")"}, Scalar{"!!str 5", R"("5")"},
        Scalar{R"(!!int "5")", "5"}, Scalar{R"(!!float "0.5")", "0.5"}, Scalar{"!!float 1", "1"},
        Scalar{R"(!!bool "true")", "true"}, Scalar{R"(!!null "")", "null"}, Scalar{"!own 5", R"("5")"},
        Scalar{"010", "8"}, Scalar{"0o10", "8"}, Scalar{"08", "8"}, Scalar{"0x1F", "31"}, Scalar{"0b11", "3"},
        Scalar{"-0x10", "-16"}, Scalar{"-010", "-8"}, Scalar{"1_000", "1000"}, Scalar{"+1", "1"}, Scalar{"-0", "0"},
        Scalar{"1e3", "1000"}, Scalar{".5", "0.5"}, Scalar{"5.", "5"}, Scalar{"1e-3", "0.001"},
        Scalar{"-1_0.5", "-10.5"}, Scalar{"0x", R"("0x")"}, Scalar{"1e", R"("1e")"}, Scalar{"0.1e400", R"("0.1e400")"},
        Scalar{"1,000", R"("1,000")"}, Scalar{"1:30", R"("1:30")"}, Scalar{"5m", R"("5m")"},
        Scalar{"2001-01-01", R"("2001-01-01")"}, Scalar{"12345678901234567890", "12345678901234567890"},
        Scalar{"99999999999999999999999", "1e23"}, Scalar{"9223372036854775807", "9223372036854775807"},
        Scalar{"9223372036854775808", "9223372036854775808"}, Scalar{"+9007199254740993", "9007199254740993"},
        Scalar{"0X1F", "31"}, Scalar{"0B11", "3"}, Scalar{"0O17", "15"}, Scalar{"0", "0"}, Scalar{"007", "7"},
        Scalar{"+", R"("+")"}, Scalar{"-.5", "-0.5"}, Scalar{"+0b11", "3"}, Scalar{"0b12", R"("0b12")"},
        Scalar{"-9223372036854775807", "-9223372036854775807"}, Scalar{"1e400", R"("1e400")"}, Scalar{".", R"(".")"},
        Scalar{"1e+", R"("1e+")"}, Scalar{"1E+3", "1000"}, Scalar{".e5", R"(".e5")"}, Scalar{"1.2.3", R"("1.2.3")"},
        Scalar{"1e5x", R"("1e5x")"}, Scalar{"-.nan", R"("-.nan")"}, Scalar{"!!bool yes", "true"},
        Scalar{"!!str null", R"("null")"}, Scalar{"[1, a]", R"([1, "a"])"},
        Scalar{"{1: one, true: t}", R"({"1": "one", "true": "t"})"}));

TEST(ParseYaml, GivesEveryDocumentThatIsNotEmpty) {
  const auto documents = parse_yaml("---\na: 1\n---\n# nothing\n---\nb: 2\n");
  ASSERT_TRUE(documents) << documents.error().message;
  EXPECT_EQ(*documents, (std::vector<json>{{{"a", 1}}, {{"b", 2}}}));
}

TEST(ParseYaml, MergesMapsAndOwnKeysWin) {
  const auto documents = parse_yaml("a: &a {u: 1, w: 1}\nb: &b {u: 2, v: 2}\nc: {<<: [*a, *b], w: 3}\n");
  ASSERT_TRUE(documents) << documents.error().message;
  EXPECT_EQ(documents->at(0).at("c"), json::parse(R"({"u": 1, "v": 2, "w": 3})"));
}

TEST(ParseYaml, TakesAQuotedMergeKeyForAName) {
  EXPECT_EQ(parse_yaml("\"<<\": 1\n")->at(0), json::parse(R"({"<<": 1})"));
}

TEST(ParseYaml, GivesWholeNumbersAsKubectlSendsThem) {
  for (const std::string text : {"a: 1000.0", "a: 1e3", R"({"a": 1000.0})", R"({"a": 1e3})"}) {
    EXPECT_EQ(parse_yaml(text)->at(0).at("a").dump(), "1000") << text;
  }
  EXPECT_EQ(parse_yaml("a: 9223372036854775808.0")->at(0).at("a").dump(), "9.223372036854776e+18");
}

TEST(ParseYaml, ReadsTheEscapesOfJson) {
  const auto documents = parse_yaml(R"( {"a": "\ud83d\ude00", "b": ["\u00e4"]})");
  ASSERT_TRUE(documents) << documents.error().message;
  EXPECT_EQ(documents->at(0), json::parse(R"({"a": "😀", "b": ["ä"]})"));
}

TEST(ParseYaml, ReadsJson) {
  const auto documents = parse_yaml(R"({"a": [true, "yes", null, 1.5]})");
  ASSERT_TRUE(documents) << documents.error().message;
  EXPECT_EQ(documents->at(0), json::parse(R"({"a": [true, "yes", null, 1.5]})"));
}

struct WrongYaml {
  std::string yaml;
  std::string message;
};
class ParseYamlRefuses : public testing::TestWithParam<WrongYaml> {};

TEST_P(ParseYamlRefuses, AndSaysWhere) {
  const auto documents = parse_yaml(GetParam().yaml);
  ASSERT_FALSE(documents);
  EXPECT_EQ(documents.error().kind, ErrorKind::invalid);
  EXPECT_EQ(documents.error().message.substr(0, GetParam().message.size()), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Table, ParseYamlRefuses,
    testing::Values(WrongYaml{"a: 1\na: 2\n", "YAML, line 2, column 1: a is given twice"},
                    WrongYaml{R"({"a": {"b": 1, "b": 2}})", "YAML, line 1, column 16: b is given twice"},
                    WrongYaml{"a: !!int many", "YAML, line 1, column 4: 'many' is no !!int"},
                    WrongYaml{"a:\n  b: 1\n\tc: 2\n", "YAML, line 3, column 1: indent with spaces, not with tabs"},
                    WrongYaml{"a:\n\tb: 1\n", "YAML, line 2, column 1: indent with spaces, not with tabs"},
                    WrongYaml{R"({"a": {"b": 1}, "a": 2})", "YAML, line 1, column 17: a is given twice"},
                    WrongYaml{"[1, 2", "YAML, line 1, column "},
                    WrongYaml{"# x\n[1, 2\n\n", "YAML, line 4, column 1: "},
                    WrongYaml{"\tx: 1\nb: [\n\n\n", "YAML, line 1, column 1: "},
                    WrongYaml{"a: [1, 2\n", "YAML, line 2, column 1: "},
                    WrongYaml{"a:\n\t- 1\n", "YAML, line 2, column "},
                    WrongYaml{"a: .inf\n", "YAML, line 1, column 4: .inf cannot be written as JSON"},
                    WrongYaml{"a: -.Inf\n", "YAML, line 1, column 4: -.Inf cannot be written as JSON"},
                    WrongYaml{"a: .NaN\n", "YAML, line 1, column 4: .NaN cannot be written as JSON"},
                    WrongYaml{"a: !!float x", "YAML, line 1, column 4: 'x' is no !!float"},
                    WrongYaml{"a: !!int 0.5", "YAML, line 1, column 4: '0.5' is no !!int"},
                    WrongYaml{"a: !!bool 1", "YAML, line 1, column 4: '1' is no !!bool"},
                    WrongYaml{"a: !!null x", "YAML, line 1, column 4: 'x' is no !!null"},
                    WrongYaml{"a: {<<: [1]}\n", "YAML, line 1, column 10: << takes a map"},
                    WrongYaml{"{\"a\": 1}}", "YAML, line 1, column "},
                    WrongYaml{"? [a, b]\n: 1\n", "YAML, line 1, column 3: a key must be a scalar"},
                    WrongYaml{"a: {<<: 1}\n", "YAML, line 1, column 9: << takes a map"},
                    WrongYaml{"a: 1\nb: x\xE4y\n", "YAML, line 2, column 5: this is no UTF-8 text"},
                    WrongYaml{"\xC3\xA4: x\xE4y\n", "YAML, line 1, column 5: this is no UTF-8 text"},
                    WrongYaml{"a: \xC0\x80", "YAML, line 1, column 4: this is no UTF-8 text"},
                    WrongYaml{"a: \xED\xA0\x80", "YAML, line 1, column 4: this is no UTF-8"},
                    WrongYaml{"a: \xE2\x82", "YAML, line 1, column 4: this is no UTF-8 text"},
                    WrongYaml{"a: &a [*a]\n", "YAML, line 1, column 4: nested deeper than 100"},
                    WrongYaml{"a: &a {<<: *a}\n", "YAML, line 1, column 4: nested deeper"},
                    WrongYaml{"a: &a {<<: [*a]}\n", "YAML, line 1, column "},
                    WrongYaml{"a: {<<: &b [*b]}\n", "YAML, line 1, column 9: nested deeper than 100"},
                    WrongYaml{std::string(101, '['), "YAML, line 1, column "},
                    WrongYaml{std::string(100'000, '['), "YAML, line 1, column "}));

TEST(ParseYaml, TakesEveryCharacterAndAHundredLevels) {
  EXPECT_EQ(parse_yaml("a: x\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80\n")->at(0).at("a"),
            "x\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80");
  EXPECT_TRUE(parse_yaml(std::string(100, '[') + std::string(100, ']')));
}

TEST(ParseYaml, TakesALongTextThatBeginsAsANumber) {
  const std::string digits(300'000, '1');
  for (const std::string& text :
       {digits, "-" + digits, digits + "." + digits, "." + digits + "e", "+" + digits + "x"}) {
    const auto documents = parse_yaml("a: " + text);
    ASSERT_TRUE(documents) << documents.error().message;
    EXPECT_EQ(documents->at(0).at("a"), text);
  }
}

TEST(ParseYaml, ReadsJsonOfAsManyLevelsAsYaml) {
  const auto nested = [](int levels) {
    std::string text;
    for (int level = 0; level < levels; ++level) text += R"({"\ud83d\ude00":)";
    return text + "1" + std::string(static_cast<std::size_t>(levels), '}');
  };
  EXPECT_TRUE(parse_yaml(nested(99)));
  EXPECT_FALSE(parse_yaml(nested(101)));
  EXPECT_FALSE(parse_yaml(nested(100'000)));
}

TEST(ParseYaml, MergesInAnyPlaceOfAMapAndTheFirstSourceWins) {
  const auto documents = parse_yaml("a: &a {u: 1, w: 1}\nc: {w: 3, <<: [*a, {u: 5, z: 5}]}\n");
  ASSERT_TRUE(documents) << documents.error().message;
  EXPECT_EQ(documents->at(0).at("c"), json::parse(R"({"u": 1, "w": 3, "z": 5})"));
}

TEST(JsonOf, TypesOneValueOfADocumentAsTheWholeIsTyped) {
  const YAML::Node document = YAML::Load("x: &x {k: 010}\nuser: {args: ['5', 5, yes, \"no\"], same: *x}\n");
  EXPECT_EQ(json_of(document["user"]), json::parse(R"({"args": ["5", 5, true, "no"], "same": {"k": 8}})"));
}

TEST(JsonOf, SaysWhereItIsWrong) {
  const auto value = json_of(YAML::Load("user:\n  a: 1\n  a: 2\n")["user"]);
  ASSERT_FALSE(value);
  EXPECT_EQ(value.error().message, "YAML, line 3, column 3: a is given twice");
}

TEST(ParseYaml, RefusesAliasesThatGrowWithoutBound) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 8; ++i) {
    const std::string alias = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + alias;
    for (int j = 1; j < 10; ++j) text += ", " + alias;
    text += "]\n";
  }
  const auto documents = parse_yaml(text);
  ASSERT_FALSE(documents);
  EXPECT_NE(documents.error().message.find("more than 1000000 values"), std::string::npos);
}

}  // namespace
}  // namespace trainyard::api
