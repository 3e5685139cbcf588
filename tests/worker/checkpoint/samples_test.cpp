#include "worker/checkpoint/samples.hpp"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace trainyard::checkpoint {
namespace {

TEST(PlanSamples, TakesSmallTensorsWhole) {
  for (const std::uint64_t bytes : {0U, 4U, 4096U})
    EXPECT_EQ(plan_samples(bytes, 4, 0.5), (SamplePlan{.count = 1, .line_bytes = bytes, .first = 0, .stride = bytes}));
}

TEST(PlanSamples, TakesALineOfEachOf64PartsAndStaysWithin) {
  for (const std::uint64_t elements : {1025U, 1100U, 4096U, 1'000'003U}) {
    for (const std::uint64_t element_bytes : {1U, 2U, 4U, 8U, 16U}) {
      for (const double random : {0.0, 0.5, 0.999999}) {
        const std::uint64_t bytes = elements * element_bytes;
        const SamplePlan plan = plan_samples(bytes, element_bytes, random);
        EXPECT_LE(plan.first + (plan.count - 1) * plan.stride + plan.line_bytes, bytes);
        EXPECT_EQ(plan.first % element_bytes + plan.stride % element_bytes + plan.line_bytes % element_bytes, 0U);
        if (plan.count == 1) continue;
        EXPECT_GE(plan.count, 64U);
        EXPECT_LT(plan.count, 80U);
        EXPECT_EQ(plan.line_bytes, 64U);
        EXPECT_LE(plan.stride, bytes / 64);
      }
    }
  }
}

TEST(PlanSamples, LooksElsewhereEachTime) {
  EXPECT_EQ(plan_samples(1 << 20, 4, 0).first, 0U);
  EXPECT_EQ(plan_samples(1 << 20, 4, 0.5).first, 8160U);
}

TEST(PlanSamples, FindsEveryRunOfChangesLongerThanA32ndOfTheTensor) {
  // 1087 elements are 64 parts of 16 with 63 left over.
  for (const std::uint64_t elements : {1087U, 2879U, 4096U}) {
    const std::uint64_t bytes = elements * 4;
    const std::uint64_t run_bytes = (elements / 32 + 1) * 4;
    for (const double random : {0.0, 0.3, 0.999999}) {
      const SamplePlan plan = plan_samples(bytes, 4, random);
      for (std::uint64_t begin = 0; begin + run_bytes <= bytes; begin += 4) {
        std::vector<std::byte> changed(bytes);
        std::fill_n(changed.begin() + static_cast<std::ptrdiff_t>(begin), run_bytes, std::byte{1});
        EXPECT_NE(samples_of(changed, plan), samples_of(std::vector<std::byte>(bytes), plan))
            << elements << " elements, changed from byte " << begin << " on";
      }
    }
  }
}

TEST(SamplesOnDevice, AreTheSameBytes) {
  const at::Tensor tensor = at::rand({100, 333});
  const at::Tensor rows = tensor.slice(0, 10, 90);
  const SamplePlan plan = plan_samples(rows.nbytes(), 4, 0.7);
  const auto expected = samples_of({static_cast<const std::byte*>(rows.const_data_ptr()), rows.nbytes()}, plan);
  const at::Tensor samples = samples_on_device(rows, plan);
  ASSERT_EQ(samples.nbytes(), expected.size());
  EXPECT_EQ(std::memcmp(samples.const_data_ptr(), expected.data(), expected.size()), 0);
}

}  // namespace
}  // namespace trainyard::checkpoint
