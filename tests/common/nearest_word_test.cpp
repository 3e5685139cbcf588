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

TEST(NearestWord, CountsNeighboursThatAreSwappedAsOneChangeAndNothingElse) {
  EXPECT_EQ(nearest_word("abX", std::vector<std::string>{"baX"}), "baX");
  for (const auto& [word, candidate] : std::vector<std::pair<std::string, std::string>>{
           {"xab", "xbc"}, {"xbc", "xab"}, {"pqba", "xyab"}, {"pqbaz", "xyabz"}, {"aab", "bba"}}) {
    EXPECT_EQ(nearest_word(word, std::vector<std::string>{candidate}), "") << word << " and " << candidate;
  }
}

TEST(NearestWord, HasAtMost64Bytes) {
  const std::string longest(64, 'x');
  EXPECT_EQ(nearest_word(longest, std::vector<std::string>{longest}), longest);
  EXPECT_EQ(nearest_word(longest, std::vector<std::string>{longest + "x"}), "");
  EXPECT_EQ(nearest_word(longest + "x", std::vector<std::string>{longest}), "");
}

TEST(NearestWords, LeaveOutWhatIsFartherThanALaterWord) {
  EXPECT_EQ(nearest_words("checkpoint", std::vector<std::string>{"checkpaimt", "checkpoimt", "checkpaims"}),
            std::vector<std::string>{"checkpoimt"});
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
