#include "local/selector.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace trainyard::local {
namespace {

using nlohmann::json;

const json pod{
    {"metadata", {{"name", "p-0"}, {"labels", {{"app", "train"}, {"tier", "gold"}, {"trainyard.dev/rank", "0"}}}}},
    {"spec", {{"nodeName", "n1"}}}};

TEST(LabelSelector, SelectsAsKubectlDoes) {
  const std::vector<std::pair<std::string, bool>> cases{
      {"", true},
      {"app=train", true},
      {"app==train", true},
      {"app = train , tier = gold", true},
      {"app=train,tier=silver", false},
      {"app!=other", true},
      {"absent!=anything", true},
      {"app!=train", false},
      {"app", true},
      {"absent", false},
      {"!absent", true},
      {"!app", false},
      {"tier in (gold, silver)", true},
      {"tier in (silver, gold)", true},
      {"tier in ( gold )", true},
      {"tier notin (silver, gold)", false},
      {"app in (train) , tier notin (gold)", false},
      {" app ", true},
      {"! app", false},
      {"app=", false},
      {"absent=", false},
      {"tier in (silver),app=train", false},
      {"tier notin (silver,bronze)", true},
      {"absent notin (x)", true},
      {"absent in (x)", false},
      {"trainyard.dev/rank=0", true},
  };
  for (const auto& [text, is_selected] : cases) {
    const auto selector = parse_label_selector(text);
    ASSERT_TRUE(selector) << text;
    EXPECT_EQ(labels_match(*selector, pod), is_selected) << text;
  }
}

TEST(LabelSelector, RefusesWhatItCannotReadByItsPart) {
  for (const std::string text :
       {"a b", "=x", "a in x)", "a within (x)", "a=b,,c", "a in (x", "in (x)", "!", ",", "!=x", "a b=c"}) {
    const auto selector = parse_label_selector(text);
    ASSERT_FALSE(selector) << text;
    EXPECT_EQ(selector.error().kind, ErrorKind::invalid);
  }
}

TEST(FieldSelector, SelectsByNameNodeAndPhase) {
  const std::vector<std::pair<std::string, bool>> cases{{"metadata.name=p-0", true},
                                                        {"metadata.name=p-1", false},
                                                        {"spec.nodeName=n1,metadata.name=p-0", true},
                                                        {"spec.nodeName!=n1", false},
                                                        {"status.phase=", true}};
  for (const auto& [text, is_selected] : cases) {
    const auto selector = parse_field_selector(text);
    ASSERT_TRUE(selector) << text;
    EXPECT_EQ(fields_match(*selector, pod), is_selected) << text;
  }
}

TEST(FieldSelector, RefusesFieldsThatNoServerSelectsBy) {
  EXPECT_EQ(parse_field_selector("spec.image=x"),
            Result<Selector>{fail(ErrorKind::invalid, "field label not supported: spec.image")});
  for (const std::string text : {"metadata.name", "metadata.name in (a)", "=a", "metadata.name=a,"}) {
    const auto selector = parse_field_selector(text);
    ASSERT_FALSE(selector) << text;
    EXPECT_EQ(selector.error().kind, ErrorKind::invalid);
    EXPECT_TRUE(selector.error().message.starts_with("unable to parse requirement '")) << selector.error().message;
  }
}

}  // namespace
}  // namespace trainyard::local
