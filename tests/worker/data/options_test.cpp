#include "include/trainyard/options.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace trainyard {
namespace {

TEST(Options, ReturnWhatTheJobGives) {
  const Options options{R"({"depth": 3, "width": 64.0, "rate": 0.5, "whole": 2, "bias": true, "act": "gelu",
                            "sizes": [4, 8], "scales": [1, 0.5], "names": ["a", "b"], "head": {"classes": 10}})"};
  EXPECT_EQ(options.integer("depth"), 3);
  EXPECT_EQ(options.integer("width"), 64) << "YAML tools may write a whole number so";
  EXPECT_EQ(options.number("rate"), 0.5);
  EXPECT_EQ(options.number("whole"), 2.0);
  EXPECT_TRUE(options.boolean("bias"));
  EXPECT_EQ(options.text("act", {}, {"relu", "gelu"}), "gelu");
  EXPECT_EQ(options.integers("sizes"), (std::vector<std::int64_t>{4, 8}));
  EXPECT_EQ(options.numbers("scales"), (std::vector<double>{1, 0.5}));
  EXPECT_EQ(options.texts("names"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(options.object("head").integer("classes"), 10);
  EXPECT_NO_THROW(options.check_all_asked());
}

TEST(Options, ReturnTheOtherwiseOfWhatTheJobDoesNotGive) {
  const Options options{R"({"depth": null})"};
  EXPECT_EQ(options.integer("depth", 7), 7) << "null is as if it were not there";
  EXPECT_EQ(options.number("rate", 0.25), 0.25);
  EXPECT_FALSE(options.boolean("bias", false));
  EXPECT_EQ(options.text("act", "relu"), "relu");
  EXPECT_EQ(options.integers("sizes", std::vector<std::int64_t>{1}), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(options.object("head").integer("classes", 2), 2);
  EXPECT_FALSE(options.contains("head"));
  EXPECT_FALSE(options.contains("depth"));
  EXPECT_EQ(Options{R"({"head": null})"}.object("head").integer("classes", 2), 2);
  EXPECT_EQ(Options{}.json_text(), "{}");
}

std::string refusal(const std::function<void()>& read) {
  try {
    read();
  } catch (const InvalidJob& error) {
    return error.what();
  }
  return "";
}

TEST(Options, RefuseWhatAModelCannotTakeByTheOptionsPath) {
  const Options options{R"({"depth": 2.5, "huge": 18446744073709551615, "rate": "fast", "bias": 1, "act": "tanh",
                            "sizes": [4, "x"], "scales": 3, "names": [1], "head": 5, "deep": {"classes": 0},
                            "below": -1, "beyond": 9, "limits": [3, 4]})"};
  struct Case {
    std::function<void()> read;
    std::string message;
  };
  const std::vector<Case> cases{
      {[&] { (void)options.integer("depth"); }, "depth: must be a whole number, got 2.5"},
      {[&] { (void)options.integer("huge"); }, "huge: must be a whole number, got 18446744073709551615"},
      {[&] { (void)options.integer("below", 1, {.min = 0}); }, "below: must be a whole number of at least 0, got -1"},
      {[&] { (void)options.integer("beyond", 1, {.max = 8}); }, "beyond: must be a whole number of at most 8, got 9"},
      {[&] { (void)options.integer("beyond", 1, {.min = 0, .max = 8}); },
       "beyond: must be a whole number from 0 to 8, got 9"},
      {[&] { (void)options.number("rate"); }, "rate: must be a number, got \"fast\""},
      {[&] { (void)options.number("below", 0.0, {.min = 0, .max = 1}); },
       "below: must be a number from 0 to 1, got -1"},
      {[&] { (void)options.number("beyond", 0.0, {.min = 0, .max = 1}); },
       "beyond: must be a number from 0 to 1, got 9"},
      {[&] { (void)options.number("below", 0.0, {.min = 0}); }, "below: must be a number of at least 0, got -1"},
      {[&] { (void)options.numbers("sizes"); }, "sizes[1]: must be a number, got \"x\""},
      {[&] { (void)options.integers("limits", {}, {.min = 1, .max = 3}); },
       "limits[1]: must be a whole number from 1 to 3, got 4"},
      {[&] { (void)options.numbers("limits", {}, {.max = 3}); }, "limits[1]: must be a number of at most 3, got 4"},
      {[&] { (void)options.boolean("bias"); }, "bias: must be true or false, got 1"},
      {[&] { (void)options.text("bias"); }, "bias: must be a text, got 1"},
      {[&] {
         (void)options.text("act", {}, {"relu", "gelu"});
       },
       "act: must be one of relu, gelu, got \"tanh\""},
      {[&] { (void)options.integers("sizes"); }, "sizes[1]: must be a whole number, got \"x\""},
      {[&] { (void)options.integers("scales"); }, "scales: must be a list of whole numbers, got 3"},
      {[&] { (void)options.numbers("scales"); }, "scales: must be a list of numbers, got 3"},
      {[&] { (void)options.texts("names"); }, "names[0]: must be a text, got 1"},
      {[&] { (void)options.texts("scales"); }, "scales: must be a list of texts, got 3"},
      {[&] { (void)options.object("head"); }, "head: must be an object, got 5"},
      {[&] { (void)options.object("deep").integer("classes", 1, {.min = 1}); },
       "deep.classes: must be a whole number of at least 1, got 0"},
      {[&] { (void)options.integer("missing"); }, "missing: must be given"},
  };
  for (const Case& c : cases) EXPECT_EQ(refusal(c.read), "training.model.options." + c.message);
}

TEST(Options, OfTextThatIsNoObjectAreRefused) {
  for (const char* text : {"", "[]", "3", "{", "null", "{} {}"}) {
    EXPECT_EQ(refusal([&] { Options{text}; }), "training.model.options: must be an object") << text;
  }
}

TEST(Options, ThatNothingAskedForAreNamedAtAnyDepth) {
  const Options options{R"({"width": 3, "head": {"clases": 10}})"};
  (void)options.integer("width");
  EXPECT_EQ(refusal([&] { options.check_all_asked(); }),
            "training.model.options.head: the model has no such option; it has width");
  (void)options.object("head").integer("classes", 2);
  EXPECT_EQ(refusal([&] { options.check_all_asked(); }),
            "training.model.options.head.clases: the model has no such option; did you mean classes?");
  (void)options.object("head").json_text();
  EXPECT_EQ(refusal([&] { options.check_all_asked(); }), "") << "the model reads that object by itself";
}

TEST(Options, AreAskedForByAQuestionWhetherTheyAreThere) {
  const Options options{R"({"width": 3})"};
  EXPECT_EQ(refusal([&] { options.check_all_asked("the format tokens"); }),
            "training.model.options.width: the format tokens has no such option; it has none here");
  EXPECT_TRUE(options.contains("width"));
  EXPECT_EQ(refusal([&] { options.check_all_asked(); }), "");
}

}  // namespace
}  // namespace trainyard
