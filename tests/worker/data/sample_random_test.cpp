#include "worker/data/sample_random.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace trainyard::data {
namespace {

// A run that resumes with another version of the worker must get the same numbers: these must never change.
TEST(SampleRandom, GivesTheNumbersOfSplitmix64) {
  struct Case {
    std::int64_t seed, epoch, sample;
    std::uint64_t first, second;
    std::int64_t below_nine;
    double uniform;
  };
  const std::vector<Case> cases{
      {0, 0, 0, 0x2130748aaac80268, 0x0cc78fb979ce5090, 1, 0.8472342137248106},
      {0, 0, 1, 0x62a4ed4055d278db, 0xf62003d438ae59ca, 3, 1.0389968120147084},
      {0, 1, 0, 0xd100827aa323c935, 0xeec82ce938dd9bcc, 7, 1.3623105203681507},
      {1, 0, 0, 0xe28195ddd9ee4956, 0x6735fa339a2f4459, 7, 1.413592362401185},
      {7, 3, 49999, 0x393a9073e35a92e4, 0x27143b0172c73d4b, 2, 0.9176624023625803},
      {-1, 2, 5, 0x24a488a33bb4b07d, 0x7e1fb1abaa63098a, 1, 0.8573516892327273},
  };
  for (const Case& c : cases) {
    SampleRandom random{c.seed, c.epoch, c.sample};
    EXPECT_EQ(random.bits(), c.first) << c.sample;
    EXPECT_EQ(random.bits(), c.second) << c.sample;
    EXPECT_EQ((SampleRandom{c.seed, c.epoch, c.sample}.below(9)), c.below_nine);
    EXPECT_EQ((SampleRandom{c.seed, c.epoch, c.sample}.uniform(0.75, 1.5)), c.uniform);
  }
}

TEST(SampleRandom, HasEveryNumberBelowTheCount) {
  std::set<std::int64_t> seen;
  SampleRandom random{0, 0, 0};
  for (int draw = 0; draw < 1000; ++draw) seen.insert(random.below(9));
  EXPECT_EQ(seen, (std::set<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
}

}  // namespace
}  // namespace trainyard::data
