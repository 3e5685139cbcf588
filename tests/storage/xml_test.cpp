#include "storage/xml.hpp"

#include <gtest/gtest.h>

namespace trainyard::storage::xml {
namespace {

TEST(Element, FindsTheFirstOfItsName) {
  const std::string_view reply =
      "<?xml version=\"1.0\"?>\n<R xmlns=\"http://s3/\"><KeyCount>2</KeyCount><Key>a</Key><Key>b</Key><Empty/></R>";
  EXPECT_EQ(element(reply, "Key"), "a");
  EXPECT_EQ(element(reply, "KeyCount"), "2");
  EXPECT_EQ(element(reply, "Empty"), "");
  EXPECT_EQ(element(reply, "Missing"), std::nullopt);
  EXPECT_EQ(element("<Tag>a</Tag><Key>b</Key>", "Key"), "b") << "the other name is as long";
  EXPECT_TRUE(element(reply, "R"));
}

TEST(Element, MayHaveAttributesOrBlanksInItsTag) {
  for (const char* text : {"<Key a=\"b\">v</Key>", "<Key\n>v</Key>", "<Key\ta=\"b\">v</Key>", "<Key\r\n>v</Key>"}) {
    EXPECT_EQ(element(text, "Key"), "v") << text;
  }
  for (const char* text : {"<Key a=\"b\"/><Key>v</Key>", "<Key />", "<Key\n/>"})
    EXPECT_EQ(element(text, "Key"), "") << text;
  EXPECT_EQ(elements("<K/><K>a</K><K x=\"1\"/>", "K"), (std::vector<std::string_view>{"", "a", ""}));
  EXPECT_EQ(element("<Key-1>v</Key-1>", "Key"), std::nullopt);
}

TEST(Element, IsNoneInATornText) {
  for (const char* torn : {"", "<", "<Key", "<Key>", "<Key>a", "<Key>a</Ke", "Key>a</Key>"}) {
    EXPECT_EQ(element(torn, "Key"), std::nullopt) << torn;
  }
}

TEST(Elements, FindsAllInOrder) {
  EXPECT_EQ(elements("<C><K>a</K></C><C><K>b</K></C>", "C"), (std::vector<std::string_view>{"<K>a</K>", "<K>b</K>"}));
  EXPECT_TRUE(elements("none", "C").empty());
}

TEST(Unescaped, ReplacesEntitiesAndLeavesTheRest) {
  EXPECT_EQ(unescaped("a&amp;b &lt;&gt;&quot;&apos; &#65;&#x42; &#228;&#8364;&#128512; &unknown; &"),
            "a&b <>\"' AB ä€😀 &unknown; &");
  EXPECT_EQ(unescaped("&#127;&#128;&#x7ff;&#x800;&#xffff;&#x10000;"), "\x7f\u0080\u07ff\u0800\uffff\U00010000");
  for (const char* text : {"&#xZZ;&;", "&x41;", "&#65x;", "&#;", "&#99999999999;", "a &amp"})
    EXPECT_EQ(unescaped(text), text);
}

TEST(Unescaped, ReplacesEntitiesAlsoAfterAnAmpersandThatBeginsNone) {
  EXPECT_EQ(unescaped("R & D &amp; &unknown; &lt; & &gt;"), "R & D & &unknown; < & >");
}

TEST(Escaped, IsUndoneByUnescaped) {
  EXPECT_EQ(escaped("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&apos;");
  EXPECT_EQ(unescaped(escaped("\"etag\" & <more>")), "\"etag\" & <more>");
}

}  // namespace
}  // namespace trainyard::storage::xml
