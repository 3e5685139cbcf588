#include "worker/train/resume.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::train {
namespace {

/// The run resumes with a training set of 100 samples.
TEST(PositionToResume, IsThatOfTheCheckpointUnlessRanksWithOrdersOfTheirOwnAreOfAnotherNumber) {
  struct Case {
    std::string what;
    std::int64_t saved_ranks, samples_done;
    std::optional<std::int64_t> saved_size;
    std::int64_t ranks, sampler_size;  // 0: no sampler.
    bool is_shared;
    std::int64_t samples;  // -1: refused.
    std::string message{};
  };
  const std::string changed =
      "it was saved with another sampler or other data; take the same ones, or set checkpoint.resume to none to train "
      "afresh";
  const std::vector<Case> cases{
      {"random orders", 2, 40, {}, 2, 0, true, 40},
      {"random orders, other ranks", 2, 40, {}, 3, 0, true, 40},
      {"data that became smaller",
       2,
       120,
       {},
       2,
       0,
       true,
       -1,
       "u is 120 samples into an epoch, and an epoch of this training has 100: it was saved with other data"},
      {"data that ends where the checkpoint is",
       2,
       100,
       {},
       2,
       0,
       true,
       -1,
       "u is 100 samples into an epoch, and an epoch of this training has 100: it was saved with other data"},
      {"data that has one sample more", 2, 99, {}, 2, 0, true, 99},
      {"a sampler", 2, 40, 60, 2, 60, true, 40},
      {"a sampler, other ranks", 2, 40, 60, 4, 60, true, 40},
      {"a sampler of another size", 2, 40, 60, 2, 80, true, -1,
       "u is 40 samples into an epoch of 60, and an epoch of this training has 80: " + changed},
      {"a sampler of another size after an epoch", 2, 0, 60, 2, 80, true, 0},
      {"a new sampler of the data's size", 2, 40, {}, 2, 100, true, 40},
      {"a new sampler of another size",
       2,
       40,
       {},
       2,
       80,
       true,
       -1,
       "u is 40 samples into an epoch of 100, and an epoch of this training has 80: " + changed},
      {"a sampler that is gone", 2, 40, 60, 2, 0, true, -1,
       "u is 40 samples into an epoch of 60, and an epoch of this training has 100: " + changed},
      {"own orders", 2, 40, 200, 2, 0, false, 40},
      {"own orders of all samples, more ranks: 80 of 100 each", 2, 160, 200, 3, 0, false, 240},
      {"own orders of all samples, fewer ranks", 4, 320, 400, 3, 0, false, 240},
      {"own samplers of a part each, more ranks: 40 of 50, then 20 of 25", 2, 80, 100, 4, 25, false, 80},
      {"own samplers of a part each, fewer ranks", 4, 80, 100, 2, 50, false, 80},
      {"own samplers that leave one sample", 2, 198, 200, 4, 7, false, 24},
      {"own samplers of another size, equally many ranks", 2, 40, 100, 2, 60, false, -1,
       "u is 40 samples into an epoch of 100, and an epoch of this training has 120: " + changed},
  };
  for (const Case& c : cases) {
    const auto sampler = make_sequential_sampler(std::max<std::int64_t>(1, c.sampler_size));
    const auto resumed = position_to_resume(
        {.uri = "u", .world_size = c.saved_ranks},
        {.position = {.step = 7, .epoch = 3, .samples = c.samples_done}, .metrics = {}, .epoch_samples = c.saved_size},
        {.sampling = {.dataset_samples = 100,
                      .sampler = c.sampler_size == 0 ? nullptr : sampler.get(),
                      .is_shared = c.is_shared},
         .world_size = c.ranks});
    EXPECT_EQ(resumed ? "" : resumed.error().message, c.message) << c.what;
    if (resumed) {
      EXPECT_EQ(*resumed, (Position{.step = 7, .epoch = 3, .samples = c.samples})) << c.what;
    } else {
      EXPECT_EQ(resumed.error().kind, ErrorKind::invalid) << c.what;
    }
  }
}

TEST(PositionToResume, IsRefusedInAnEpochWhereARankThatJoinsHasAnotherNumberOfSamplesNow) {
  struct Case {
    std::string what;
    std::vector<std::int64_t> saved, now;
    std::string message = {};
    std::int64_t samples_done = 8;
  };
  const std::string advice =
      ": give each rank the samples that it had, or set checkpoint.resume to none to train afresh";
  const std::vector<Case> cases{
      {"equal", {40, 7}, {40, 7}},
      {"saved without join", {}, {40, 40}},
      {"saved without join, and shorter now",
       {},
       {40, 7},
       "u was saved in an epoch in which rank 1 had 40 samples, and now it has 7" + advice},
      {"exchanged",
       {40, 7},
       {7, 40},
       "u was saved in an epoch in which rank 0 had 40 samples, and now it has 7" + advice},
      {"a shorter one changed",
       {40, 7},
       {40, 8},
       "u was saved in an epoch in which rank 1 had 7 samples, and now it has 8" + advice},
      {"join was left out",
       {40, 7},
       {},
       "u was saved in an epoch in which rank 1 had 7 samples, and now it has 40" + advice},
      {"where an epoch begins", {40, 7}, {7, 40}, "", 0},
  };
  const auto sampler = make_sequential_sampler(40);
  for (const Case& c : cases) {
    const auto resumed = position_to_resume(
        {.uri = "u", .world_size = 2},
        {.position = {.step = 7, .epoch = 3, .samples = c.samples_done},
         .metrics = {},
         .epoch_samples = 80,
         .order_sizes = c.saved},
        {.sampling = {.dataset_samples = 100, .sampler = sampler.get(), .is_shared = false, .order_sizes = c.now},
         .world_size = 2});
    EXPECT_EQ(resumed ? "" : resumed.error().message, c.message) << c.what;
  }
}

}  // namespace
}  // namespace trainyard::train
