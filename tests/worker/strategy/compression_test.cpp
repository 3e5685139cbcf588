// The exchanges of gradients that send fewer bytes, each against its formula and against Python's DDP with the same
// hook.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/skips.hpp"
#include "tests/worker/fakes/rank_threads.hpp"
#include "tests/worker/strategy/train_by_ddp.hpp"
#include "worker/strategy/byte_grad.hpp"
#include "worker/strategy/gradient_buckets.hpp"
#include "worker/strategy/power_sgd.hpp"

namespace trainyard::strategy {
namespace {

using fakes::RankThread;
using fakes::run_ranks;

/// A gradient of each of several parameters.
using Gradients = std::vector<torch::Tensor>;

/// The gradients of step `step` on rank `rank`, of shapes [12, 10], [7] and [3, 4, 5].
Gradients make_gradients(std::int64_t step, std::int64_t rank) {
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(100 * step + rank));
  Gradients gradients;
  for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{12, 10}, {7}, {3, 4, 5}})
    gradients.push_back(torch::randn(shape, generator));
  return gradients;
}

std::vector<torch::Tensor> make_parameters() {
  std::vector<torch::Tensor> parameters;
  for (const torch::Tensor& gradient : make_gradients(0, 0))
    parameters.push_back(torch::zeros_like(gradient).requires_grad_());
  return parameters;
}

/// One step of a rank: its gradients are `own` before it, and those of all ranks after it.
void exchange(GradientBuckets& buckets, std::vector<torch::Tensor>& parameters, const Gradients& own) {
  buckets.zero();
  torch::Tensor loss = torch::zeros({});
  for (std::size_t index = 0; index < parameters.size(); ++index) loss = loss + (parameters[index] * own[index]).sum();
  loss.backward();
  ASSERT_TRUE(buckets.finish(plain_wait, plain_wait));
}

struct Exchanged {
  Gradients gradients;
  std::uint64_t bytes = 0;
};

/// The results of each rank after each of `steps` steps.
std::vector<std::vector<Exchanged>> exchange_all(
    std::int64_t world_size, std::int64_t steps, const MakeExchange& make,
    const std::function<Gradients(std::int64_t step, std::int64_t rank)>& gradients = make_gradients) {
  std::vector<std::vector<Exchanged>> all(static_cast<std::size_t>(world_size));
  run_ranks(world_size, [&](RankThread& rank) {
    std::vector<torch::Tensor> parameters = make_parameters();
    GradientBuckets buckets{parameters, rank.process_group, {}, make};
    for (std::int64_t step = 0; step < steps; ++step) {
      exchange(buckets, parameters, gradients(step, rank.rank));
      Exchanged done{.gradients = {}, .bytes = buckets.exchange().exchanged_bytes()};
      for (const torch::Tensor& parameter : parameters) done.gradients.push_back(parameter.grad().clone());
      all[static_cast<std::size_t>(rank.rank)].push_back(std::move(done));
    }
  });
  return all;
}

constexpr std::int64_t elements = 120 + 7 + 60;
constexpr std::int64_t parameter_count = 3;

TEST(RoundedAllReduce, AddsUpWhatWasRoundedAndSendsHalfOfTheBytes) {
  for (const auto dtype : {torch::kHalf, torch::kBFloat16}) {
    const auto all = exchange_all(2, 1, all_reduce({.dtype = dtype, .predivide_factor = {}}));
    for (const auto& of_rank : all) {
      EXPECT_EQ(of_rank[0].bytes, 2U * (elements + parameter_count));
      for (std::size_t index = 0; index < of_rank[0].gradients.size(); ++index) {
        const torch::Tensor expected =
            (make_gradients(0, 0)[index] / 2).to(dtype) + (make_gradients(0, 1)[index] / 2).to(dtype);
        EXPECT_TRUE(torch::equal(of_rank[0].gradients[index], expected.to(torch::kFloat))) << dtype << " " << index;
      }
    }
  }
}

TEST(AllReduce, DividesBeforeAndAfterAsHorovodDoes) {
  // Two ranks, a factor of 8: gradients are divided by 8, and their sum by 2 / 8.
  const auto large = [](std::int64_t, std::int64_t rank) {
    Gradients gradients;
    for (const torch::Tensor& gradient : make_gradients(0, 0))
      gradients.push_back(torch::full_like(gradient, rank == 0 ? 40960.0 : 61440.0));
    return gradients;
  };
  for (const double factor : {1.0, 8.0}) {
    const auto all = exchange_all(2, 1, all_reduce({.dtype = torch::kHalf, .predivide_factor = factor}), large);
    const auto got = all[1][0].gradients[0][0][0].item<float>();
    // The sum of 102400 does not fit into float16; 12800 does.
    if (factor == 1.0) {
      EXPECT_TRUE(std::isinf(got));
    } else {
      EXPECT_EQ(got, 51200.0F);
    }
  }
}

TEST(AllReduce, AddsUpWhereTheSumIsAskedFor) {
  const auto all = exchange_all(2, 1, all_reduce({.dtype = {}, .predivide_factor = 1.0, .is_mean = false}));
  for (const auto& of_rank : all) {
    for (std::size_t index = 0; index < of_rank[0].gradients.size(); ++index) {
      const torch::Tensor expected = make_gradients(0, 0)[index] + make_gradients(0, 1)[index];
      EXPECT_TRUE(torch::equal(of_rank[0].gradients[index], expected)) << index;
    }
  }
}

TEST(AllReduce, CountsTheBytesOfGradientsAndOfWhichParametersWereUsed) {
  EXPECT_EQ(exchange_all(2, 3, make_all_reduce)[1][2].bytes, 3U * 4U * (elements + parameter_count));
}

/// PowerSGD of the two matrices of make_gradients(), by its formulas, for all ranks in one place.
class SimulatedPowerSgd {
 public:
  explicit SimulatedPowerSgd(std::int64_t world_size, const PowerSgdOptions& options)
      : world_size_{world_size}, options_{options} {
    errors_.resize(static_cast<std::size_t>(world_size));
  }

  /// The gradient that all ranks have after the step.
  Gradients step(std::int64_t step) {
    Gradients result;
    for (std::size_t index = 0; index < 3; ++index) {
      torch::Tensor mean = torch::zeros_like(make_gradients(0, 0)[index]);
      for (std::int64_t rank = 0; rank < world_size_; ++rank)
        mean += make_gradients(step, rank)[index] / static_cast<double>(world_size_);
      result.push_back(mean);
    }
    if (step < options_.start_step) return result;
    // In a bucket the last parameter comes first.
    auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(step));
    // Two columns of factors of the last one, [3, 20] as a matrix, would need more than half of its bytes.
    if (options_.rank == 1) result[2] = approximate(step, 2, generator);
    result[0] = approximate(step, 0, generator);
    return result;
  }

 private:
  torch::Tensor approximate(std::int64_t step, std::size_t index, at::Generator& generator) {
    std::vector<torch::Tensor> inputs;
    for (std::int64_t rank = 0; rank < world_size_; ++rank) {
      const torch::Tensor gradient = make_gradients(step, rank)[index];
      inputs.push_back(gradient.view({gradient.size(0), -1}));
      const torch::Tensor& error = errors_[static_cast<std::size_t>(rank)][index];
      if (options_.has_error_feedback && error.defined()) inputs.back() = inputs.back() + error;
    }
    torch::Tensor& last = last_q_[index];
    if (!last.defined() && options_.has_warm_start) {
      // The first factors of a training are drawn for step 0.
      if (!first_generator_.defined()) first_generator_ = at::detail::createCPUGenerator(0);
      last = torch::randn({inputs[0].size(1), options_.rank}, first_generator_);
    }
    const torch::Tensor q =
        options_.has_warm_start ? last : torch::randn({inputs[0].size(1), options_.rank}, generator);
    const torch::Tensor orthogonal_q = std::get<0>(torch::linalg_qr(q));
    torch::Tensor p = torch::zeros({inputs[0].size(0), options_.rank});
    for (const torch::Tensor& input : inputs) p += input.mm(orthogonal_q);
    p = std::get<0>(torch::linalg_qr(p));
    torch::Tensor next_q = torch::zeros_like(q);
    for (const torch::Tensor& input : inputs) next_q += input.t().mm(p) / static_cast<double>(world_size_);
    const torch::Tensor mean = p.mm(next_q.t());
    for (std::size_t rank = 0; rank < inputs.size(); ++rank) errors_[rank][index] = inputs[rank] - mean;
    last = next_q;
    return mean.view_as(make_gradients(0, 0)[index]);
  }

  std::int64_t world_size_;
  PowerSgdOptions options_;
  std::vector<std::array<torch::Tensor, 3>> errors_;
  std::array<torch::Tensor, 3> last_q_;
  at::Generator first_generator_;
};

TEST(PowerSgd, IsItsFormulaOnTwoToFourRanks) {
  struct Case {
    std::int64_t world_size;
    PowerSgdOptions options;
  };
  const Case cases[] = {{2, {.rank = 1, .start_step = 2}},
                        {3, {.rank = 2, .start_step = 0}},
                        {4, {.rank = 1, .start_step = 1, .has_error_feedback = false}},
                        {2, {.rank = 2, .start_step = 0, .has_warm_start = false}}};
  for (const auto& [world_size, options] : cases) {
    const auto all = exchange_all(world_size, 6, power_sgd(options, {"a", "b", "c"}));
    SimulatedPowerSgd simulated{world_size, options};
    for (std::size_t step = 0; step < 6; ++step) {
      const Gradients expected = simulated.step(static_cast<std::int64_t>(step));
      for (std::size_t index = 0; index < expected.size(); ++index) {
        const torch::Tensor& got = all[0][step].gradients[index];
        EXPECT_TRUE(torch::allclose(got, expected[index], 1e-3, 1e-4))
            << world_size << " ranks, rank " << options.rank << ", step " << step << ", parameter " << index;
        for (const auto& of_rank : all) EXPECT_TRUE(torch::equal(of_rank[step].gradients[index], got));
      }
    }
  }
}

TEST(PowerSgd, SendsTheFactorsOfAMatrixAndTheRestAsItIs) {
  const auto all = exchange_all(2, 3, power_sgd({.rank = 2, .start_step = 1}, {"a", "b", "c"}));
  // [3, 4, 5] is a matrix [3, 20], whose factors would need more than half of its bytes.
  const std::uint64_t whole = 4U * (elements + parameter_count);
  const std::uint64_t factored = 4U * (7 + 60 + parameter_count + 2 * (12 + 10));
  EXPECT_EQ(all[0][0].bytes, whole);
  EXPECT_EQ(all[0][2].bytes, whole + 2 * factored);
}

TEST(PowerSgd, KeepsItsStateInAStepWhoseGradientsAreNotFinite) {
  const auto gradients = [](bool has_bad_step) {
    return [has_bad_step](std::int64_t step, std::int64_t rank) {
      if (!has_bad_step) return make_gradients(step, rank);
      Gradients own = make_gradients(step > 1 ? step - 1 : step, rank);
      if (step == 1 && rank == 1) own[0][3][3] = std::numeric_limits<float>::quiet_NaN();
      return own;
    };
  };
  const auto make = power_sgd({.rank = 1, .start_step = 0}, {"a", "b", "c"});
  const auto usual = exchange_all(2, 4, make, gradients(false));
  const auto disturbed = exchange_all(2, 5, make, gradients(true));
  EXPECT_TRUE(disturbed[0][1].gradients[0].isnan().any().item<bool>());
  for (std::size_t index = 0; index < 3; ++index)
    EXPECT_TRUE(torch::equal(disturbed[0][4].gradients[index], usual[0][3].gradients[index])) << index;
}

TEST(PowerSgd, SavesWhatItsOptionsLetItKeepByTheNamesOfTheParameters) {
  struct Case {
    PowerSgdOptions options;
    std::vector<std::string> names;
  };
  const Case cases[] = {
      {{.rank = 1}, {"powersgd.steps", "powersgd.error.c", "powersgd.q1.c", "powersgd.error.a", "powersgd.q1.a"}},
      {{.rank = 2}, {"powersgd.steps", "powersgd.error.a", "powersgd.q2.a"}},
      {{.rank = 2, .has_error_feedback = false}, {"powersgd.steps", "powersgd.q2.a"}},
      {{.rank = 2, .has_warm_start = false}, {"powersgd.steps", "powersgd.error.a"}}};
  run_ranks(2, [&](RankThread& rank) {
    for (const auto& [options, names] : cases) {
      GradientBuckets buckets{make_parameters(), rank.process_group, {}, power_sgd(options, {"a", "b", "c"})};
      std::vector<std::string> saved;
      const auto common = buckets.exchange().common_state();
      for (const auto& [name, tensor] : buckets.exchange().state()) {
        saved.push_back(name);
        // A rank that a checkpoint lacks gets from rank 0 what all ranks have alike. The errors are each rank's own.
        const bool is_common =
            std::ranges::any_of(common, [&](const torch::Tensor& one) { return one.is_same(tensor); });
        EXPECT_EQ(is_common, !name.starts_with("powersgd.error.")) << name;
      }
      EXPECT_EQ(saved, names) << "rank " << options.rank;
    }
  });
}

TEST(PowerSgd, GivesZeroForAMatrixOfZeros) {
  const auto nothing = [](std::int64_t, std::int64_t) {
    Gradients zeros;
    for (const torch::Tensor& gradient : make_gradients(0, 0)) zeros.push_back(torch::zeros_like(gradient));
    return zeros;
  };
  const auto all = exchange_all(2, 2, power_sgd({.rank = 2, .start_step = 0}, {"a", "b", "c"}), nothing);
  for (const torch::Tensor& gradient : all[0][1].gradients) EXPECT_EQ(gradient.abs().max().item<float>(), 0.0F);
}

/// One chunk of ByteGrad, by its formulas, a number at a time.
std::vector<float> through_bytes(const std::vector<float>& numbers) {
  const float least = *std::ranges::min_element(numbers), greatest = *std::ranges::max_element(numbers);
  const float scale = 255.0F / (greatest - least + 1e-7F);
  const float upper = std::nearbyint(greatest * scale), lower = upper - 255.0F;
  std::vector<float> result;
  for (const float number : numbers) {
    const auto byte = static_cast<std::uint8_t>(std::min(std::nearbyint(number * scale), upper) - lower);
    result.push_back((static_cast<float>(byte) + lower) / scale);
  }
  return result;
}

std::vector<float> as_vector(const torch::Tensor& tensor) {
  const torch::Tensor flat = tensor.contiguous();
  return {flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel()};
}

TEST(MinMaxUint8, KeepsEachRowAsBytesBetweenItsLeastAndItsGreatestNumber) {
  const torch::Tensor rows = torch::tensor({{-1.0, 0.0, 0.5, 1.0}, {0.0, 0.0, 0.0, 0.0}, {7.0, 7.0, 7.0, 7.0}});
  const torch::Tensor compressed = compress(rows);
  ASSERT_EQ(compressed.sizes(), (std::vector<std::int64_t>{3, 64}));
  EXPECT_EQ(as_vector(compressed.slice(1, 0, 8).contiguous().view(torch::kFloat)[0]), (std::vector{-1.0F, 1.0F}));
  // scale = 127.5: the levels of 1, -1, 0 and 0.5 are round(127.5) = 128, -128, 0 and 64, and byte 0 is 128 - 255.
  EXPECT_TRUE(torch::equal(compressed[0].slice(0, 32, 36), torch::tensor({0, 127, 191, 255}, torch::kUInt8)));
  EXPECT_EQ(compressed[0].slice(0, 36).sum().item<std::int64_t>(), 0);
  EXPECT_EQ(as_vector(decompress(compressed, 4)[1]), std::vector<float>(4, 0.0F));
  EXPECT_NEAR(decompress(compressed, 4)[2][0].item<float>(), 7.0F, 1e-5F);
  auto generator = at::detail::createCPUGenerator(1);
  const torch::Tensor random = torch::randn({5, 1000}, generator);
  for (std::int64_t row = 0; row < 5; ++row)
    EXPECT_EQ(as_vector(decompress(compress(random), 1000)[row]), through_bytes(as_vector(random[row])));
}

TEST(MinMaxUint8, DoesNotHideWhatIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    torch::Tensor rows = torch::ones({2, 3});
    rows[0][1] = bad;
    const torch::Tensor read = decompress(compress(rows), 3);
    EXPECT_FALSE(read[0].isfinite().any().item<bool>());
    EXPECT_TRUE(read[1].isfinite().all().item<bool>());
  }
}

TEST(ByteGrad, IsItsFormulaOnTwoToFourRanks) {
  for (const std::int64_t world_size : {2, 3, 4}) {
    const auto all = exchange_all(world_size, 2, make_byte_grad);
    const std::int64_t columns = (elements + world_size - 1) / world_size;
    // In a bucket the last parameter comes first.
    torch::Tensor expected = torch::zeros({world_size, columns});
    for (std::int64_t chunk = 0; chunk < world_size; ++chunk) {
      torch::Tensor mean = torch::zeros({columns});
      for (std::int64_t rank = 0; rank < world_size; ++rank) {
        const Gradients own = make_gradients(1, rank);
        const torch::Tensor flat =
            torch::cat({own[2].flatten(), own[1], own[0].flatten(), torch::zeros({world_size * columns - elements})});
        mean += torch::tensor(through_bytes(as_vector(flat.view({world_size, columns})[chunk])));
      }
      expected[chunk] = torch::tensor(through_bytes(as_vector(mean / static_cast<double>(world_size))));
    }
    for (const auto& of_rank : all) {
      const Gradients& got = of_rank[1].gradients;
      const torch::Tensor flat = torch::cat({got[2].flatten(), got[1], got[0].flatten()});
      EXPECT_TRUE(torch::allclose(flat, expected.flatten().slice(0, 0, elements), 0.0, world_size == 2 ? 0.0 : 1e-5))
          << world_size << " ranks";
      const auto bytes = static_cast<std::uint64_t>((world_size + 1) * compressed_bytes(columns));
      EXPECT_EQ(of_rank[1].bytes, 2 * (bytes + 4 * parameter_count));
      for (std::size_t index = 0; index < got.size(); ++index)
        EXPECT_TRUE(torch::equal(got[index], all[0][1].gradients[index]));
    }
  }
}

TEST(Compression, HasTheParametersOfPythonsDdpWithTheSameHookAfterEachStep) {
  if (!has_python_torch()) return tests::cannot_run("Python's torch is missing: scripts/setup test installs it");
  const auto factored = [](std::vector<std::string> names) {
    return power_sgd({.rank = 2, .start_step = 2}, std::move(names));
  };
  const auto rounded = [](torch::ScalarType dtype) {
    return [dtype](const std::vector<std::string>&) { return all_reduce({.dtype = dtype, .predivide_factor = {}}); };
  };
  // One bucket, as Python's hooks get.
  const torch::Tensor usual = states_by_ddp(2, 8, {.limits = {}})[0];
  for (const auto& [hook, exchange] : {std::pair<std::string, decltype(DdpOptions::exchange)>{"powersgd", factored},
                                       {"fp16", rounded(torch::kHalf)},
                                       {"bf16", rounded(torch::kBFloat16)}}) {
    const torch::Tensor ours = states_by_ddp(2, 8, {.limits = {}, .exchange = exchange})[0];
    const float difference = (ours - states_by_python(2, 8, hook)).abs().max().item<float>();
    EXPECT_LT(difference, hook == "powersgd" ? 1e-3F : 1e-5F) << hook;
    EXPECT_GT((ours - usual).abs().max().item<float>(), 2 * difference) << hook << " changes what is trained";
  }
}

}  // namespace
}  // namespace trainyard::strategy
