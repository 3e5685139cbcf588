#include "common/nearest_word.hpp"

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

namespace trainyard {
namespace {

TEST(NearestWord, IsTheOneThatWasMistyped) {
  const std::vector<std::string> words{"replicas", "resources", "volumeMounts", "image", "env", "envFrom"};
  const std::vector<std::tuple<std::string, std::string>> cases{{"replica", "replicas"},
                                                                {"resource", "resources"},
                                                                {"volumemounts", "volumeMounts"},
                                                                {"imgae", "image"},
                                                                {"volumeMount", "volumeMounts"},
                                                                {"enf", "env"},
                                                                {"foo", ""},
                                                                {"x", ""},
                                                                {"", ""},
                                                                {"tolerations", ""},
                                                                {std::string(1000, 'x'), ""}};
  for (const auto& [word, nearest] : cases) EXPECT_EQ(nearest_word(word, words), nearest) << word;
  EXPECT_EQ(nearest_word("volumeMoun", words, 2), "volumeMounts");
  EXPECT_EQ(nearest_word("volumeMoun", words, 1), "");
}

TEST(NearestWords, AreSeveralWhereTheyAreEquallyNear) {
  const std::vector<std::string> words{"checkpoint", "checkpoints", "logs", "runs", "rust"};
  EXPECT_EQ(nearest_words("chekpoint", words), std::vector<std::string>{"checkpoint"});
  EXPECT_EQ(nearest_words("rus", words), (std::vector<std::string>{"runs", "rust"}));
  EXPECT_EQ(nearest_words("start", words), std::vector<std::string>{});
  EXPECT_EQ(nearest_words("chekpoints", words, 0), std::vector<std::string>{});
}

}  // namespace
}  // namespace trainyard
