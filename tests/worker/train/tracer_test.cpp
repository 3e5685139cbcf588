#include "worker/train/tracer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/types.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "tests/fakes/faulty_store.hpp"
#include "tests/fakes/gate.hpp"
#include "tests/fakes/memory_store.hpp"

namespace trainyard::train {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr auto patience = 60s;
using OnPut = std::function<std::optional<Error>()>;

class ATracer : public testing::Test {
 protected:
  std::unique_ptr<Tracer> open(const api::ProfileSpec& profile, OnPut on_put = nullptr) {
    auto store = std::make_unique<fakes::FaultyStore>(
        std::make_unique<fakes::MemoryStore>(objects),
        [on_put = std::move(on_put)](std::string_view call, std::string_view, storage::Pieces) -> std::optional<Error> {
          return call == "put" && on_put ? on_put() : std::nullopt;
        });
    return std::make_unique<Tracer>(LogPlace{.store = std::move(store), .folder = "logs/"}, "trace.json", profile,
                                    torch::kCPU);
  }
  /// Makes steps `first` to `last`; step N multiplies matrices of N rows.
  static void make_steps(Tracer& tracer, std::int64_t first, std::int64_t last) {
    for (std::int64_t step = first; step <= last; ++step) {
      tracer.before_step();
      const torch::Tensor a = torch::ones({step, step}, torch::requires_grad());
      torch::matmul(a, a).sum().backward();
      tracer.after_step();
    }
  }
  /// How often each operator is in the trace; empty when there is none.
  std::map<std::string, int> operators() {
    fakes::MemoryStore store{objects};
    const auto text = storage::get_text(store, "logs/trace.json");
    std::map<std::string, int> found;
    if (!text) return found;
    const json trace = json::parse(*text);
    for (const json& event : trace.at("traceEvents")) {
      if (event.value("cat", "") == "cpu_op") ++found[event.at("name").get<std::string>()];
    }
    return found;
  }

  fakes::MemoryObjects objects;
};

TEST_F(ATracer, RecordsTheOperatorsOfTheStepsThatWereAskedForForwardAndBackward) {
  const auto tracer = open({.first_step = 2, .steps = 3});
  make_steps(*tracer, 1, 7);
  ASSERT_TRUE(tracer->finish(patience));
  const auto found = operators();
  ASSERT_TRUE(found.contains("aten::matmul"));
  EXPECT_EQ(found.at("aten::matmul"), 3);
  EXPECT_TRUE(found.contains("MmBackward0")) << "the backward pass is missing";
}

TEST_F(ATracer, KeepsWhatWasRecordedWhenTheTrainingEndsInTheMiddle) {
  const auto tracer = open({.first_step = 2, .steps = 100});
  make_steps(*tracer, 1, 3);
  ASSERT_TRUE(tracer->finish(patience));
  EXPECT_EQ(operators()["aten::matmul"], 2);
}

TEST_F(ATracer, RecordsNothingInATrainingThatIsShorter) {
  const auto tracer = open({.first_step = 10, .steps = 5});
  make_steps(*tracer, 1, 3);
  EXPECT_TRUE(tracer->finish(patience));
  EXPECT_TRUE(objects.objects.empty());
}

TEST_F(ATracer, GoesOnWithAWarningWhenTheStoreFails) {
  testing::internal::CaptureStderr();
  const auto tracer = open({.first_step = 1, .steps = 1}, [] {
    return std::optional{Error{ErrorKind::forbidden, "no right to write there", std::nullopt}};
  });
  make_steps(*tracer, 1, 2);
  EXPECT_TRUE(tracer->finish(patience));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("no right to write there"));
}

TEST_F(ATracer, HoldsUpNoStepHoweverSlowTheStoreIs) {
  fakes::Gate gate;
  const auto tracer = open({.first_step = 1, .steps = 1}, [&gate]() -> std::optional<Error> {
    gate.pass();
    return std::nullopt;
  });
  make_steps(*tracer, 1, 2);
  EXPECT_FALSE(tracer->finish(0ms));
  gate.open();
  EXPECT_TRUE(tracer->finish(patience));
}

TEST_F(ATracer, GoesOnWithAWarningWhenTheProfilerFails) {
  testing::internal::CaptureStderr();
  const auto tracer = open({.first_step = 1, .steps = 2});
  make_steps(*tracer, 1, 1);
  torch::autograd::profiler::disableProfiler();  // As a model does that uses the profiler for itself.
  make_steps(*tracer, 2, 3);
  EXPECT_TRUE(tracer->finish(patience));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("no trace of this rank"));
  EXPECT_TRUE(objects.objects.empty());
}

TEST_F(ATracer, GoesOnWithAWarningWhenThereIsNoRoomForAFile) {
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("TMPDIR", "/dev/null/nothing", 1);
  testing::internal::CaptureStderr();
  const auto tracer = open({.first_step = 1, .steps = 1});
  make_steps(*tracer, 1, 2);
  EXPECT_TRUE(tracer->finish(patience));
  before == nullptr ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", kept.c_str(), 1);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("no trace of this rank"));
  EXPECT_TRUE(objects.objects.empty());
}

TEST(TraceKey, NamesTheRunTheAttemptAndTheRank) {
  const Time began{std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}};
  EXPECT_EQ(trace_key(began, 2, 13), "trace.1767225600000000.0002.rank-13.json");
}

}  // namespace
}  // namespace trainyard::train
