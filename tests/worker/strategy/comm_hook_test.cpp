#include "worker/strategy/comm_hook.hpp"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "include/trainyard/options.hpp"
#include "tests/worker/fakes/mean_hook.hpp"
#include "tests/worker/fakes/plain_wait.hpp"
#include "tests/worker/fakes/rank_threads.hpp"
#include "worker/strategy/exchange_failed.hpp"
#include "worker/strategy/gradient_buckets.hpp"

namespace trainyard::strategy {
namespace {

using fakes::plain_wait;
using fakes::RankThread;
using fakes::run_ranks;
using Future = c10::intrusive_ptr<c10::ivalue::Future>;

Future ready(const torch::Tensor& tensor) {
  auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  future->markCompleted(c10::IValue{std::vector<torch::Tensor>{tensor}});
  return future;
}

/// A hook that exchanges nothing: its future has what `answer` returns.
class LocalHook final : public c10d::CppCommHookInterface<int> {
 public:
  using Answer = std::function<Future(c10d::GradBucket&)>;
  explicit LocalHook(Answer answer) : CppCommHookInterface{0}, answer_{std::move(answer)} {}
  Future runHook(c10d::GradBucket& bucket) override { return answer_(bucket); }

 private:
  Answer answer_;
};

std::vector<torch::Tensor> two_weights() {
  return {torch::ones({2, 3}).requires_grad_(), torch::ones({4}).requires_grad_()};
}

/// One step on which the gradients of the weights are `first` and `second`; nothing for a weight that is not used.
Result<void> hooked_step(GradientBuckets& buckets, const std::vector<torch::Tensor>& weights,
                         std::optional<double> first, std::optional<double> second) {
  buckets.zero();
  torch::Tensor loss = torch::zeros({}, torch::requires_grad());
  if (first) loss = loss + *first * weights[0].sum();
  if (second) loss = loss + *second * weights[1].sum();
  loss.backward();
  return buckets.finish(plain_wait, plain_wait);
}

void expect_two_gradients(const std::vector<torch::Tensor>& weights, double first, double second) {
  EXPECT_TRUE(torch::equal(weights[0].grad(), torch::full({2, 3}, first))) << weights[0].grad();
  EXPECT_TRUE(torch::equal(weights[1].grad(), torch::full({4}, second))) << weights[1].grad();
}

TEST(CommHook, GivesTheOptimizerWhatItsFutureHas) {
  run_ranks(2, [](RankThread& rank) {
    for (const auto dtype : {torch::kFloat, torch::kHalf}) {
      const auto weights = two_weights();
      const auto hook = std::make_shared<fakes::MeanHook>(rank.process_group, dtype);
      GradientBuckets buckets{weights, rank.process_group, {}, by_comm_hook(hook)};
      for (int steps = 0; steps < 2; ++steps) {
        ASSERT_TRUE(hooked_step(buckets, weights, 1.0 + 2.0 * static_cast<double>(rank.rank), 5.0));
        expect_two_gradients(weights, 2.0, 5.0);
      }
    }
  });
}

TEST(CommHook, GetsTheBucketsWithTheirParametersAsTheBackwardPassLeavesThem) {
  run_ranks(2, [](RankThread& rank) {
    const auto weights = two_weights();
    std::vector<std::tuple<std::size_t, bool, std::int64_t>> calls;
    const auto hook = std::make_shared<LocalHook>([&](c10d::GradBucket& bucket) {
      calls.emplace_back(bucket.getIndex(), bucket.isLast(), bucket.getBuffer().numel());
      const auto gradients = bucket.getGradients();
      const auto parameters = bucket.getParameters();
      EXPECT_EQ(gradients.size(), parameters.size());
      for (std::size_t place = 0; place < gradients.size(); ++place) {
        const torch::Tensor& parameter = parameters[place];
        const double gradient = parameter.is_same(weights[0]) ? 3.0 : 4.0;
        EXPECT_TRUE(torch::equal(gradients[place], torch::full_like(parameter, gradient)));
      }
      return ready(10 * bucket.getBuffer());
    });
    constexpr BucketLimits one_each{.first_bytes = 1, .bytes = 1};
    for (const BucketLimits& limits : {BucketLimits{}, one_each}) {
      calls.clear();
      GradientBuckets buckets{weights, rank.process_group, limits, by_comm_hook(hook)};
      ASSERT_TRUE(hooked_step(buckets, weights, 3.0, 4.0));
      expect_two_gradients(weights, 30.0, 40.0);
      if (limits.bytes != 1) {
        EXPECT_THAT(calls, testing::ElementsAre(std::tuple{0, true, 10}));
        continue;
      }
      EXPECT_THAT(calls, testing::ElementsAre(std::tuple{0, false, 4}, std::tuple{1, true, 6}));
    }
  });
}

TEST(CommHook, LeavesARankTheGradientOfAParameterThatOnlyAnotherOneUsed) {
  run_ranks(2, [](RankThread& rank) {
    const auto weights = two_weights();
    GradientBuckets buckets{weights,
                            rank.process_group,
                            {},
                            by_comm_hook(std::make_shared<fakes::MeanHook>(rank.process_group, torch::kFloat))};
    const bool is_user = rank.rank == 1;
    ASSERT_TRUE(hooked_step(buckets, weights, 1.0, is_user ? std::optional{8.0} : std::nullopt));
    expect_two_gradients(weights, 1.0, 4.0);
    ASSERT_TRUE(hooked_step(buckets, weights, 1.0, std::nullopt));
    EXPECT_FALSE(weights[1].grad().defined()) << "no rank used it";
  });
}

TEST(CommHook, WhoseResultDoesNotFitFailsTheJob) {
  run_ranks(2, [](RankThread& rank) {
    const std::function<torch::Tensor(const torch::Tensor&)> results[] = {
        [](const torch::Tensor& buffer) { return buffer.slice(0, 1); },
        [](const torch::Tensor& buffer) { return buffer.to(torch::kHalf); },
        [](const torch::Tensor&) { return torch::Tensor{}; },
    };
    for (const auto& result : results) {
      const auto weights = two_weights();
      GradientBuckets buckets{
          weights, rank.process_group, {}, by_comm_hook(std::make_shared<LocalHook>([&](c10d::GradBucket& bucket) {
            return ready(result(bucket.getBuffer()));
          }))};
      try {
        std::ignore = hooked_step(buckets, weights, 1.0, 1.0);
        ADD_FAILURE() << "the result was taken";
      } catch (const InvalidJob& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("the communication hook's result for bucket 0 has "));
        EXPECT_THAT(error.what(), testing::HasSubstr("and the bucket has 10 elements of float on cpu"));
      }
    }
  });
}

TEST(CommHook, MayGiveAResultWhoseElementsDoNotFollowEachOther) {
  run_ranks(2, [](RankThread& rank) {
    const auto weights = two_weights();
    const auto hook = std::make_shared<LocalHook>([](c10d::GradBucket& bucket) {
      return ready(torch::stack({bucket.getBuffer(), bucket.getBuffer()}, 1).select(1, 0));
    });
    GradientBuckets buckets{weights, rank.process_group, {}, by_comm_hook(hook)};
    ASSERT_TRUE(hooked_step(buckets, weights, 3.0, 4.0));
    expect_two_gradients(weights, 3.0, 4.0);
  });
}

TEST(CommHook, FailsTheJobByInvalidJobAndWithoutAFuture) {
  run_ranks(2, [](RankThread& rank) {
    const auto refuses = [](c10d::GradBucket&) -> Future { throw InvalidJob{"options.levels: too few"}; };
    const auto forgets = [](c10d::GradBucket&) { return Future{}; };
    for (const auto& [answer, words] :
         {std::pair{LocalHook::Answer{refuses}, "options.levels: too few"},
          {LocalHook::Answer{forgets}, "the communication hook has returned no future for bucket 0"}}) {
      const auto weights = two_weights();
      GradientBuckets buckets{weights, rank.process_group, {}, by_comm_hook(std::make_shared<LocalHook>(answer))};
      try {
        std::ignore = hooked_step(buckets, weights, 1.0, 1.0);
        ADD_FAILURE() << words;
      } catch (const InvalidJob& error) {
        EXPECT_STREQ(error.what(), words);
      }
    }
  });
}

/// Two hooks that fail by `failure`: the first throws it, the second has it in its future.
std::vector<LocalHook::Answer> both_ways(const std::exception_ptr& failure) {
  return {[=](c10d::GradBucket&) -> Future { std::rethrow_exception(failure); },
          [=](c10d::GradBucket&) {
            auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
            future->setError(failure);
            return future;
          }};
}

TEST(CommHook, FailsTheProgramByWhateverElseItThrows) {
  run_ranks(2, [](RankThread& rank) {
    for (const auto& [failure, words] :
         {std::pair{std::make_exception_ptr(std::runtime_error{"index 7 of 4"}),
                    "the communication hook: index 7 of 4"},
          {std::make_exception_ptr(5), "the communication hook threw something that is no std::exception"}}) {
      for (const LocalHook::Answer& answer : both_ways(failure)) {
        const auto weights = two_weights();
        GradientBuckets buckets{weights, rank.process_group, {}, by_comm_hook(std::make_shared<LocalHook>(answer))};
        try {
          std::ignore = hooked_step(buckets, weights, 1.0, 1.0);
          ADD_FAILURE() << words;
        } catch (const ProgramFailed& error) {
          EXPECT_STREQ(error.what(), words);
        }
      }
    }
    const auto gives_a_number = [](c10d::GradBucket&) {
      auto future = c10::make_intrusive<c10::ivalue::Future>(c10::IntType::get());
      future->markCompleted(c10::IValue{5});
      return future;
    };
    const auto weights = two_weights();
    GradientBuckets buckets{weights, rank.process_group, {}, by_comm_hook(std::make_shared<LocalHook>(gives_a_number))};
    EXPECT_THROW(std::ignore = hooked_step(buckets, weights, 1.0, 1.0), ProgramFailed);
  });
}

TEST(CommHook, LosesAPeerByWhatItsCollectivesThrow) {
  run_ranks(2, [](RankThread& rank) {
    const c10::SourceLocation place{"f", "f.cpp", 1};
    const std::exception_ptr failures[] = {
        std::make_exception_ptr(c10::DistNetworkError{place, "no route"}),
        std::make_exception_ptr(std::runtime_error{"no route in my hook: Connection closed by peer [10.0.0.1]"}),
        std::make_exception_ptr(
            ExchangeFailed{{.kind = ErrorKind::unavailable, .message = "no route", .retry_after = {}}}),
    };
    for (const std::exception_ptr& failure : failures) {
      for (const LocalHook::Answer& answer : both_ways(failure)) {
        const auto weights = two_weights();
        GradientBuckets buckets{weights, rank.process_group, {}, by_comm_hook(std::make_shared<LocalHook>(answer))};
        const auto done = hooked_step(buckets, weights, 1.0, 1.0);
        ASSERT_FALSE(done);
        EXPECT_EQ(done.error().kind, ErrorKind::unavailable);
        EXPECT_THAT(done.error().message, testing::HasSubstr("no route"));
      }
    }
  });
}

TEST(CommHook, LosesAPeerThatHasGone) {
  run_ranks(2, [](RankThread& rank) {
    if (rank.rank == 1) return;
    const auto weights = two_weights();
    GradientBuckets buckets{weights,
                            rank.process_group,
                            {},
                            by_comm_hook(std::make_shared<fakes::MeanHook>(rank.process_group, torch::kFloat))};
    const auto done = hooked_step(buckets, weights, 1.0, 1.0);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().kind, ErrorKind::unavailable) << done.error().message;
  });
}

}  // namespace
}  // namespace trainyard::strategy
