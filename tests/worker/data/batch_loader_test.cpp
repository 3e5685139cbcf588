#include "worker/data/batch_loader.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "include/trainyard/options.hpp"
#include "tests/fakes/gate.hpp"

namespace trainyard::data {
namespace {

/// Requests for batches of one sample each: 0, 1, ... up to `count`.
BatchLoader::Requests requests_for(std::int64_t count) {
  return [count, next = std::int64_t{0}]() mutable -> std::optional<BatchRequest> {
    if (next == count) return std::nullopt;
    return BatchRequest{.ids = torch::full({1}, next++, torch::kInt64)};
  };
}

Batch doubled(const BatchRequest& request) {
  return {.inputs = request.ids * 2, .targets = {}, .ids = {}};
}

TEST(BatchLoader, GivesTheBatchesInOrderWithAnyNumberOfThreads) {
  for (const std::int64_t threads : {0, 1, 3}) {
    BatchLoader loader{requests_for(10), doubled, {.threads = threads}};
    for (std::int64_t batch = 0; batch < 10; ++batch) {
      const Batch loaded = loader.next();
      EXPECT_EQ(loaded.ids.item<std::int64_t>(), batch) << threads << " threads";
      EXPECT_EQ(loaded.inputs.item<std::int64_t>(), 2 * batch) << threads << " threads";
    }
  }
}

TEST(BatchLoader, RecordsNoGradientsWhileItGathersOnAnyThread) {
  const torch::Tensor factor = torch::ones({1}, torch::requires_grad());
  for (const std::int64_t threads : {0, 1}) {
    BatchLoader loader{
        requests_for(1),
        [&](const BatchRequest& request) { return Batch{.inputs = request.ids * factor, .targets = {}, .ids = {}}; },
        {.threads = threads}};
    EXPECT_FALSE(loader.next().inputs.requires_grad()) << threads << " threads";
    EXPECT_TRUE(torch::GradMode::is_enabled());
  }
}

TEST(BatchLoader, GathersAheadOnItsThreadsAndNoFurtherThanItsBound) {
  std::mutex mutex;  // guards the two below
  std::vector<std::int64_t> begun;
  std::set<std::thread::id> threads;
  fakes::Gate gate;
  BatchLoader loader{requests_for(100),
                     [&](const BatchRequest& request) {
                       {
                         const std::scoped_lock lock{mutex};
                         begun.push_back(request.ids.item<std::int64_t>());
                         threads.insert(std::this_thread::get_id());
                         if (begun.size() == 3) gate.open();
                       }
                       if (request.ids.item<std::int64_t>() == 0) gate.pass();  // Until others were gathered meanwhile.
                       return doubled(request);
                     },
                     {.threads = 2}};
  EXPECT_EQ(loader.next().ids.item<std::int64_t>(), 0);
  const std::scoped_lock lock{mutex};
  EXPECT_EQ((std::set<std::int64_t>{begun.begin(), begun.end()}), (std::set<std::int64_t>{0, 1, 2}));
  EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
}

TEST(BatchLoader, ThrowsWhatGatheringThrewAtThatBatch) {
  for (const std::int64_t threads : {0, 2}) {
    BatchLoader loader{requests_for(5),
                       [](const BatchRequest& request) {
                         if (request.ids.item<std::int64_t>() == 2) throw std::runtime_error{"2.jpg is torn"};
                         return doubled(request);
                       },
                       {.threads = threads}};
    EXPECT_EQ(loader.next().ids.item<std::int64_t>(), 0);
    EXPECT_EQ(loader.next().ids.item<std::int64_t>(), 1);
    EXPECT_THROW(std::ignore = loader.next(), std::runtime_error) << threads << " threads";
  }
}

TEST(BatchLoader, RefusesInputsThatAreNotARowForEachSample) {
  for (const torch::Tensor& inputs : {torch::zeros({3, 2}), torch::tensor(1.0)}) {
    BatchLoader loader{
        requests_for(1), [&](const BatchRequest&) { return Batch{.inputs = inputs, .targets = {}, .ids = {}}; }, {}};
    try {
      std::ignore = loader.next();
      FAIL() << "it took " << inputs;
    } catch (const InvalidJob& error) {
      EXPECT_EQ(std::string{error.what()}, "the data set's gather() gave inputs of " +
                                               std::to_string(inputs.dim() == 0 ? 0 : 3) +
                                               " rows for 1 samples: the first dimension of inputs is the batch");
    }
  }
}

/// The refusal of a batch of the samples 7 and 8 that have these targets, by a loader of four classes; empty: none.
std::string refusal_of(const torch::Tensor& targets) {
  const torch::Tensor ids = torch::tensor({7, 8}, torch::kInt64);
  BatchLoader loader{[&] { return BatchRequest{.ids = ids}; },
                     [&](const BatchRequest&) { return Batch{.inputs = {}, .targets = targets, .ids = {}}; },
                     {.classes = 4}};
  try {
    std::ignore = loader.next();
  } catch (const InvalidJob& error) {
    return error.what();
  }
  return "";
}

TEST(BatchLoader, NamesTheSampleWhoseTargetIsNoClass) {
  const std::string of_8 =
      "sample 8 of the data set has the target 4, but the data set says that it has 4 classes (0 to 3): look at the "
      "labels, and at what its classes() returns";
  EXPECT_EQ(refusal_of(torch::tensor({3, 4}, torch::kInt64)), of_8);
  EXPECT_EQ(refusal_of(torch::tensor({3, 4}, torch::kUInt8)), of_8);
  EXPECT_EQ(refusal_of(torch::tensor({3, 4}, torch::kInt32)), of_8);
}

TEST(BatchLoader, TakesTargetsThatAreClassesOrNone) {
  EXPECT_EQ(refusal_of(torch::tensor({0, 3}, torch::kInt64)), "");
  EXPECT_EQ(refusal_of(torch::tensor({-100, 3}, torch::kInt64)), "") << "cross_entropy leaves -100 out";
  EXPECT_EQ(refusal_of(torch::tensor({7.0, 8.0})), "") << "numbers are no classes";
  EXPECT_EQ(refusal_of(torch::tensor({0, 1, 2, 255}, torch::kUInt8).reshape({2, 2})), "") << "a mask with void pixels";
  EXPECT_EQ(refusal_of(torch::empty({2, 0}, torch::kInt64)), "");
  EXPECT_EQ(refusal_of(torch::tensor(4, torch::kInt64)), "") << "of no sample";
  EXPECT_EQ(refusal_of({}), "");
}

}  // namespace
}  // namespace trainyard::data
