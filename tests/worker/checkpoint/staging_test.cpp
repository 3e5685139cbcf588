#include "worker/checkpoint/staging.hpp"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>
#include <vector>

#include "worker/checkpoint/host_state.hpp"

namespace trainyard::checkpoint {
namespace {

// An entry of 2 MiB, which is cut, and small entries of each placement.
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

TEST(Staging, ReusesItsBuffers) {
  Staging staging{0, 2};
  const State state = a_state();
  ASSERT_TRUE(staging.stage(state));
  const auto places = places_of(staging);
  for (const Entry& entry : state.entries) entry.tensor.add_(1);
  ASSERT_TRUE(staging.stage(state));
  EXPECT_EQ(places_of(staging), places);
  EXPECT_EQ(staging.entries()[2].bytes[8], std::byte{2});
}

TEST(Staging, HoldsOnlyWhatItsRankWrites) {
  Staging staging{1, 2};
  ASSERT_TRUE(staging.stage(a_state()));
  EXPECT_TRUE(staging.entries()[1].bytes.empty()) << "rank 0's";
  EXPECT_EQ(staging.entries()[1].info.bytes, 28U) << "known all the same";
  const auto large = staging.entries()[0].bytes;
  EXPECT_TRUE(has_ones(large.last(large.size() / 2))) << "the second half is rank 1's";
}

TEST(Staging, LeavesSteadyEntriesToTheSecondCall) {
  Staging staging{0, 1};
  State state = a_state();
  state.entries[0].is_steady = true;
  ASSERT_TRUE(staging.stage(state));
  state.entries[2].tensor.fill_(7);
  EXPECT_EQ(staging.stage_steady(), true) << "what is not steady may have changed";
  EXPECT_TRUE(has_ones(staging.entries()[0].bytes));
  EXPECT_EQ(staging.entries()[2].bytes[8], std::byte{1});
}

TEST(Staging, NoticesThatASteadyEntryChangedAndThenStagesAllAtOnce) {
  Staging staging{0, 1};
  State state = a_state();
  state.entries[0].is_steady = true;
  ASSERT_TRUE(staging.stage(state));
  state.entries[0].tensor.detach()[1023][0] = 5;  // By another tensor of the same memory, as a user's clipping would.
  EXPECT_EQ(staging.stage_steady(), false);

  for (const char* save : {"the next save", "and each one after it"}) {
    state.entries[0].tensor.fill_(1);
    ASSERT_TRUE(staging.stage(state)) << save;
    state.entries[0].tensor.zero_();
    EXPECT_EQ(staging.stage_steady(), true) << save;
    EXPECT_TRUE(has_ones(staging.entries()[0].bytes)) << save;
  }
}

TEST(Staging, NoticesAChangeThatTorchDoesNotCount) {
  struct Row {
    std::string_view name;
    void (*change)(const at::Tensor& tensor);
  };
  const Row rows[] = {
      {"in place, by .data()", [](const at::Tensor& tensor) { tensor.data().mul_(0.5); }},
      {"in place, by .variable_data()", [](const at::Tensor& tensor) { tensor.variable_data().clamp_(-0.5, 0.5); }},
      {"by a pointer",
       [](const at::Tensor& tensor) {
         auto* numbers = static_cast<float*>(tensor.data_ptr());
         for (std::int64_t i = 0; i < tensor.numel(); ++i) numbers[i] += 1;
       }},
      {"one row in 32, by a pointer",
       [](const at::Tensor& tensor) {
         auto* numbers = static_cast<float*>(tensor.data_ptr());
         std::fill_n(numbers + tensor.numel() / 2, 2 * tensor.numel() / 64, 7.F);
       }},
      {"one element of a small one, by a pointer",
       [](const at::Tensor& tensor) {
         if (tensor.numel() < 1000) *static_cast<float*>(tensor.data_ptr()) = 7.F;
       }},
  };
  for (const Row& row : rows) {
    for (const std::int64_t count : {9, 1024 * 512}) {
      Staging staging{0, 1};
      State state;
      state.entries.push_back(
          {.name = "weight", .placement = Placement::replicated, .tensor = at::ones({count}), .is_steady = true});
      const at::Tensor& weight = state.entries.front().tensor;
      const at::Tensor before = weight.clone();
      ASSERT_TRUE(staging.stage(state));
      row.change(weight);
      const bool has_changed = !at::equal(weight, before);
      EXPECT_EQ(staging.stage_steady(), !has_changed) << row.name << ", " << count << " elements";
    }
  }
}

TEST(Staging, ComparesTensorsOfAnyLayout) {
  const std::vector<at::Tensor> tensors{
      at::rand({8, 3, 9, 9}).contiguous(at::MemoryFormat::ChannelsLast),
      at::rand({300, 200}).t(),
      at::rand({300, 200}).slice(1, 0, 100),
      at::complex(at::rand({2000}), at::rand({2000})).conj(),
      at::rand({}),
      at::rand({0, 3}),
  };
  for (const at::Tensor& tensor : tensors) {
    Staging staging{0, 1};
    State state;
    state.entries.push_back(
        {.name = "weight", .placement = Placement::replicated, .tensor = tensor, .is_steady = true});
    ASSERT_TRUE(staging.stage(state));
    EXPECT_EQ(staging.stage_steady(), true) << tensor.sizes();
    const at::Tensor plain = tensor.resolve_conj().contiguous();
    EXPECT_TRUE(std::ranges::equal(staging.entries()[0].bytes,
                                   std::span{static_cast<const std::byte*>(plain.const_data_ptr()), plain.nbytes()}))
        << tensor.sizes();
  }
  Staging staging{0, 1};
  State state;
  state.entries.push_back(
      {.name = "weight", .placement = Placement::replicated, .tensor = tensors.front(), .is_steady = true});
  ASSERT_TRUE(staging.stage(state));
  tensors.front().data().mul_(2);
  EXPECT_EQ(staging.stage_steady(), false);
}

TEST(Staging, IgnoresAChangeAfterTheStateIsStaged) {
  Staging staging{0, 1};
  State state = a_state();
  state.entries[0].is_steady = true;
  ASSERT_TRUE(staging.stage(state));
  ASSERT_EQ(staging.stage_steady(), true);
  state.entries[0].tensor.data().zero_();
  ASSERT_TRUE(staging.stage(state));
  EXPECT_EQ(staging.stage_steady(), true);
}

TEST(Staging, LooksForWhatIsNotFiniteOnlyWhereThatMatters) {
  Staging staging{1, 2};
  State state = a_state();
  state.entries[0].tensor[0][0] = std::nan("");  // Rank 0's to look at.
  state.entries[0].must_be_finite = true;
  ASSERT_TRUE(staging.stage(state));
  EXPECT_TRUE(staging.is_finite());
  state.entries[0].tensor[1023][0] = -INFINITY;
  ASSERT_TRUE(staging.stage(state));
  EXPECT_FALSE(staging.is_finite());
}

TEST(Staging, TakesLargeWeightsForFiniteThoughTheirSumIsBeyondTheirType) {
  const std::pair<torch::ScalarType, double> large[] = {{torch::kHalf, 60000.0}, {torch::kDouble, 1e308}};
  for (const auto& [type, weight] : large) {
    Staging staging{0, 1};
    State state = a_state();
    state.entries[0].must_be_finite = true;
    state.entries[0].tensor = torch::full_like(state.entries[0].tensor, weight, type);
    ASSERT_TRUE(staging.stage(state));
    EXPECT_TRUE(staging.is_finite()) << type;
    state.entries[0].tensor[1023][0] = INFINITY;
    ASSERT_TRUE(staging.stage(state));
    EXPECT_FALSE(staging.is_finite()) << type;
  }
}

TEST(Staging, RefusesWhatHasNoPlainBytesAndStagesTheNextSave) {
  Staging staging{0, 1};
  State state = a_state();
  state.entries[0].tensor = at::eye(3).to_sparse();
  const auto copied = staging.stage(state);
  ASSERT_FALSE(copied);
  EXPECT_EQ(copied.error().kind, ErrorKind::invalid);
  EXPECT_TRUE(staging.stage(a_state()));
}

TEST(Staging, OfAKeeperHoldsAllButWhatOnlyRankZeroWrites) {
  State state = a_state();
  const at::Tensor large = at::rand({1024, 512});
  state.entries[0].tensor = large;
  for (const std::int64_t rank : {0, 1}) {
    Staging staging{rank, 2, StagedPart::whole};
    ASSERT_TRUE(staging.stage(state));
    EXPECT_TRUE(std::ranges::equal(staging.entries()[0].bytes,
                                   std::span{static_cast<const std::byte*>(large.const_data_ptr()), large.nbytes()}))
        << "also the half of the other rank";
    EXPECT_EQ(staging.entries()[1].bytes.empty(), rank != 0);
    EXPECT_EQ(staging.entries()[2].bytes.size(), 9U);
    large.add_(1);  // The next buffer may have the memory of this one.
  }
}

TEST(Staging, DescribesAStateAnewWhichHasOtherNamesTypesOrPlacements) {
  struct Row {
    std::string_view name;
    void (*change)(Entry& entry);
  };
  const Row rows[] = {
      {"name", [](Entry& entry) { entry.name = "other"; }},
      {"type of the same size",
       [](Entry& entry) {
         entry.tensor = at::ones({1024, 512}, at::kInt);
       }},
      {"shape of the same size",
       [](Entry& entry) {
         entry.tensor = at::ones({512, 1024});
       }},
      {"placement", [](Entry& entry) { entry.placement = Placement::per_rank; }},
  };
  for (const Row& row : rows) {
    Staging staging{0, 1};
    State state = a_state();
    ASSERT_TRUE(staging.stage(state));
    row.change(state.entries[0]);
    ASSERT_TRUE(staging.stage(state));
    EXPECT_EQ(staging.entries()[0].info, describe(state.entries[0])->info) << row.name;
  }
}

TEST(Staging, LooksForWhatIsNotFiniteInEveryEntryThatMustBe) {
  for (const std::size_t bad : {0U, 1U}) {
    Staging staging{0, 1};
    State state = a_state();
    state.entries[bad].must_be_finite = true;
    state.entries[bad].tensor.view({-1})[6] = INFINITY;
    ASSERT_TRUE(staging.stage(state));
    EXPECT_FALSE(staging.is_finite()) << "entry " << bad;
  }
}

}  // namespace
}  // namespace trainyard::checkpoint
