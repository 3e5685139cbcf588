#include "worker/checkpoint/staging.hpp"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace trainyard::checkpoint {
namespace {

// Of 2 MiB, which is cut, and of small ones of each placement.
State a_state() {
  State state;
  state.entries.push_back({"large", Placement::replicated, at::ones({1024, 512})});
  state.entries.push_back({"buffer", Placement::rank0, at::ones({7})});
  state.entries.push_back({"rng", Placement::per_rank, at::ones({9}, at::kByte)});
  return state;
}

std::vector<const std::byte*> places_of(const Staging& staging) {
  std::vector<const std::byte*> places;
  for (const HostEntry& entry : staging.entries()) places.push_back(entry.bytes.data());
  return places;
}

bool has_ones(std::span<const std::byte> bytes) {
  const at::Tensor ones = at::ones({static_cast<std::int64_t>(bytes.size() / sizeof(float))});
  return std::ranges::equal(bytes, std::span{static_cast<const std::byte*>(ones.const_data_ptr()), ones.nbytes()});
}

TEST(Staging, KeepsItsBuffersFromCopyToCopy) {
  Staging staging{0, 2};
  const State state = a_state();
  ASSERT_TRUE(staging.copy(state));
  const auto places = places_of(staging);
  for (const Entry& entry : state.entries) entry.tensor.add_(1);
  ASSERT_TRUE(staging.copy(state));
  EXPECT_EQ(places_of(staging), places);
  EXPECT_EQ(staging.entries()[2].bytes[8], std::byte{2});
}

TEST(Staging, HoldsOnlyWhatItsRankWrites) {
  Staging staging{1, 2};
  ASSERT_TRUE(staging.copy(a_state()));
  EXPECT_TRUE(staging.entries()[1].bytes.empty()) << "rank 0's";
  EXPECT_EQ(staging.entries()[1].info.bytes, 28U) << "known all the same";
  const auto large = staging.entries()[0].bytes;
  EXPECT_TRUE(has_ones(large.last(large.size() / 2))) << "the second half is rank 1's";
}

TEST(Staging, LeavesWhatIsSteadyToTheSecondCopy) {
  Staging staging{0, 1};
  State state = a_state();
  state.entries[0].is_steady = true;
  ASSERT_TRUE(staging.copy(state));
  state.entries[2].tensor.fill_(7);
  EXPECT_EQ(staging.copy_steady(), true) << "what is not steady may have changed";
  EXPECT_TRUE(has_ones(staging.entries()[0].bytes));
  EXPECT_EQ(staging.entries()[2].bytes[8], std::byte{1});
}

TEST(Staging, NoticesThatWhatShouldBeSteadyChangedAndThenCopiesAllAtOnce) {
  Staging staging{0, 1};
  State state = a_state();
  state.entries[0].is_steady = true;
  ASSERT_TRUE(staging.copy(state));
  state.entries[0].tensor.detach()[1023][0] = 5;  // By another tensor of the same memory, as a user's clipping would.
  EXPECT_EQ(staging.copy_steady(), false);

  state.entries[0].tensor.fill_(1);
  ASSERT_TRUE(staging.copy(state));
  state.entries[0].tensor.zero_();
  EXPECT_EQ(staging.copy_steady(), true);
  EXPECT_TRUE(has_ones(staging.entries()[0].bytes));
}

TEST(Staging, LooksForWhatIsNotFiniteOnlyWhereThatMatters) {
  Staging staging{1, 2};
  State state = a_state();
  state.entries[0].tensor[0][0] = std::nan("");  // Rank 0's to look at.
  state.entries[0].must_be_finite = true;
  ASSERT_TRUE(staging.copy(state));
  EXPECT_TRUE(staging.is_finite());
  state.entries[0].tensor[1023][0] = -INFINITY;
  ASSERT_TRUE(staging.copy(state));
  EXPECT_FALSE(staging.is_finite());
}

TEST(Staging, RefusesWhatHasNoPlainBytesAndGoesOnWithTheNext) {
  Staging staging{0, 1};
  State state = a_state();
  state.entries[0].tensor = at::eye(3).to_sparse();
  const auto copied = staging.copy(state);
  ASSERT_FALSE(copied);
  EXPECT_EQ(copied.error().kind, ErrorKind::invalid);
  EXPECT_TRUE(staging.copy(a_state()));
}

}  // namespace
}  // namespace trainyard::checkpoint
