#include "worker/data/stream_loader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "include/trainyard/options.hpp"

namespace trainyard::data {
namespace {

using testing::HasSubstr;
using Counts = std::vector<std::int64_t>;

/// Gives the numbers from 0 to `size` as inputs, and notes in `asked` what it was asked for.
class CountingStream final : public SampleStream {
 public:
  CountingStream(std::int64_t size, Counts& asked, bool skips = false) : size_{size}, asked_{asked}, skips_{skips} {}
  [[nodiscard]] Batch next(std::int64_t count) override {
    asked_.push_back(count);
    const std::int64_t end = std::min(size_, next_ + count);
    const torch::Tensor numbers = torch::arange(std::exchange(next_, end), end, torch::kInt64);
    return {.inputs = numbers * 10, .targets = {}, .ids = {}};
  }
  [[nodiscard]] bool skip(std::int64_t count) override {
    if (skips_) next_ = std::min(size_, next_ + count);
    return skips_;
  }

 private:
  std::int64_t size_;
  std::int64_t next_ = 0;
  Counts& asked_;
  bool skips_;
};

/// A stream of one batch.
class OneBatch final : public SampleStream {
 public:
  explicit OneBatch(std::function<Batch()> batch) : batch_{std::move(batch)} {}
  [[nodiscard]] Batch next(std::int64_t /*count*/) override { return batch_(); }

 private:
  std::function<Batch()> batch_;
};

Counts ids_in(const Batch& batch) {
  const auto* ids = batch.ids.const_data_ptr<std::int64_t>();
  return {ids, ids + batch.size()};
}

TEST(StreamLoader, GivesTheBatchesOfAStreamAndAsksForNoneAfterItsEnd) {
  struct Case {
    std::int64_t size;
    std::vector<Counts> batches;
    std::size_t calls;
  };
  const std::vector<Case> cases{
      {0, {{}, {}}, 1}, {2, {{0, 1}, {}, {}}, 1}, {3, {{0, 1, 2}, {}, {}}, 2}, {4, {{0, 1, 2}, {3}, {}, {}}, 2}};
  for (const Case& c : cases) {
    for (const std::int64_t threads : {0, 1}) {
      Counts asked;
      StreamLoader loader{std::make_unique<CountingStream>(c.size, asked), 3, {.threads = threads}};
      for (const Counts& expected : c.batches) {
        const Batch batch = loader.next();
        EXPECT_EQ(ids_in(batch), expected) << c.size << " samples, " << threads << " threads";
        if (batch.size() > 0) {
          EXPECT_TRUE(torch::equal(batch.inputs, batch.ids * 10));
        }
      }
      EXPECT_EQ(asked, Counts(c.calls, 3)) << c.size << " samples, " << threads << " threads";
    }
  }
}

TEST(StreamLoader, KeepsTheNumbersThatTheStreamGives) {
  StreamLoader loader{std::make_unique<OneBatch>([] {
                        return Batch{.inputs = torch::zeros({2, 3}), .targets = {}, .ids = torch::tensor({70L, 7L})};
                      }),
                      2,
                      {}};
  EXPECT_EQ(ids_in(loader.next()), (Counts{70, 7}));
}

TEST(StreamLoader, PassesOverSamplesByTheStreamsOwnMeansOrByReadingThem) {
  struct Case {
    std::int64_t skipped;
    bool by_stream;
    Counts next;   // the batch after them
    Counts asked;  // up to and with that batch
    int beats;
  };
  const std::vector<Case> cases{{0, false, {0, 1, 2}, {3}, 0},    {0, true, {0, 1, 2}, {3}, 0},
                                {3, false, {3, 4, 5}, {3, 3}, 1}, {5, false, {5, 6, 7}, {3, 2, 3}, 2},
                                {5, true, {5, 6, 7}, {3}, 0},     {9, false, {9}, {3, 3, 3, 3}, 3},
                                {30, false, {}, {3, 3, 3, 3}, 4}, {30, true, {}, {3}, 0}};
  for (const Case& c : cases) {
    for (const std::int64_t threads : {0, 1}) {
      Counts asked;
      int beats = 0;
      {
        StreamLoader loader{std::make_unique<CountingStream>(10, asked, c.by_stream), 3, {.threads = threads}};
        loader.skip(c.skipped, [&] { ++beats; });
        EXPECT_EQ(ids_in(loader.next()), c.next) << c.skipped << (c.by_stream ? " by the stream" : " by reading");
      }
      asked.resize(std::min(asked.size(), c.asked.size()));  // A thread may have asked for more.
      EXPECT_EQ(asked, c.asked) << c.skipped << (c.by_stream ? " by the stream" : " by reading");
      EXPECT_EQ(beats, c.beats) << c.skipped << (c.by_stream ? " by the stream" : " by reading");
    }
  }
}

TEST(StreamLoader, ReadsAheadByOneThreadAndNoFurtherThanItsBound) {
  Counts asked;
  {
    StreamLoader loader{std::make_unique<CountingStream>(1000, asked), 1, {.threads = 1}};
    EXPECT_EQ(ids_in(loader.next()), Counts{0});
    EXPECT_EQ(ids_in(loader.next()), Counts{1});
  }
  EXPECT_GE(asked.size(), 2U);
  EXPECT_LE(asked.size(), 3U) << "two batches were taken, and one more was asked for";
}

TEST(StreamLoader, RecordsNoGradientsWhileItReads) {
  const torch::Tensor factor = torch::ones({1}, torch::requires_grad());
  for (const std::int64_t threads : {0, 1}) {
    StreamLoader loader{std::make_unique<OneBatch>(
                            [&] { return Batch{.inputs = torch::ones({1}) * factor, .targets = {}, .ids = {}}; }),
                        1,
                        {.threads = threads}};
    EXPECT_FALSE(loader.next().inputs.requires_grad()) << threads << " threads";
  }
}

TEST(StreamLoader, RefusesABatchThatIsNoneOfTheStreams) {
  struct Case {
    std::string what;
    std::function<Batch()> batch;
    std::string message;
  };
  const std::string giver = "next() of the training stream gave ";
  const std::vector<Case> cases{
      {"too many",
       [] {
         return Batch{.inputs = torch::zeros({5, 2}), .targets = {}, .ids = {}};
       },
       giver + "5 samples where 4 were asked for: it may give fewer at the end of an epoch, never more"},
      {"a scalar", [] { return Batch{.inputs = torch::zeros({}), .targets = {}, .ids = {}}; },
       giver + "a batch whose samples cannot be counted: it needs ids, or inputs whose first dimension is the batch"},
      {"only named tensors",
       [] {
         return Batch{.inputs = {}, .targets = {}, .ids = {}, .named = {{"mask", torch::zeros({2, 2})}}};
       },
       giver + "a batch whose samples cannot be counted"},
      {"fewer inputs than ids",
       [] {
         return Batch{.inputs = torch::zeros({2, 2}), .targets = {}, .ids = torch::arange(3)};
       },
       giver + "inputs of 2 rows for 3 samples"},
      {"ids of another type",
       [] {
         return Batch{.inputs = torch::zeros({2, 2}), .targets = {}, .ids = torch::zeros({2})};
       },
       giver + "ids of type Float with 1 dimensions on cpu: they must be int64 [B] on the CPU"},
      {"ids of two dimensions",
       [] {
         return Batch{.inputs = torch::zeros({2, 2}), .targets = {}, .ids = torch::zeros({2, 1}, torch::kInt64)};
       },
       giver + "ids of type Long with 2 dimensions on cpu"},
      {"an unknown class",
       [] {
         return Batch{.inputs = torch::zeros({2, 2}), .targets = torch::tensor({1L, 3L}), .ids = {}};
       },
       "sample 1 of the data set has the target 3, but the data set says that it has 3 classes"},
  };
  for (const Case& c : cases) {
    for (const std::int64_t threads : {0, 1}) {
      StreamLoader loader{std::make_unique<OneBatch>(c.batch), 4, {.threads = threads, .classes = 3}};
      EXPECT_THAT([&] { (void)loader.next(); }, testing::ThrowsMessage<InvalidJob>(HasSubstr(c.message))) << c.what;
    }
  }
}

TEST(StreamLoader, ThrowsWhatTheStreamThrows) {
  for (const std::int64_t threads : {0, 1}) {
    StreamLoader loader{std::make_unique<OneBatch>([]() -> Batch { throw std::runtime_error{"the feed is torn"}; }),
                        4,
                        {.threads = threads}};
    EXPECT_THAT([&] { (void)loader.next(); }, testing::ThrowsMessage<std::runtime_error>("the feed is torn"));
  }
}

}  // namespace
}  // namespace trainyard::data
