#include "operator/kube/object_text.hpp"

#include <gtest/gtest.h>

namespace trainyard::kube {
namespace {

TEST(ParseObject, LeavesManagedFieldsOut) {
  const std::string meta = R"({"name": "a", "managedFields": [{"manager": "x", "fieldsV1": {"f:a": {}}}], "uid": "u"})";
  const json expected{{"name", "a"}, {"uid", "u"}};
  EXPECT_EQ(parse_object(R"({"metadata": )" + meta + "}"), (json{{"metadata", expected}}));
  EXPECT_EQ(parse_object(R"({"type": "ADDED", "object": {"metadata": )" + meta + "}}"),
            (json{{"type", "ADDED"}, {"object", {{"metadata", expected}}}}));
  EXPECT_EQ(parse_object(R"({"items": [{"metadata": )" + meta + R"(}, {"metadata": )" + meta + "}]}"),
            (json{{"items", json::array({{{"metadata", expected}}, {{"metadata", expected}}})}}));
}

TEST(ParseObject, KeepsWhatOnlyHasThatName) {
  const json deep =
      json::parse(R"({"spec": {"template": {"spec": {"x": {"managedFields": 1}}}}, "y": "managedFields"})");
  EXPECT_EQ(parse_object(deep.dump()), deep);
}

TEST(ParseObject, DiscardsWhatIsNoJson) {
  for (const char* text : {"", "{", R"({"metadata": {"managedFields": [})", "no"}) {
    EXPECT_TRUE(parse_object(text).is_discarded()) << text;
  }
}

}  // namespace
}  // namespace trainyard::kube
