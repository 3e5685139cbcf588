#pragma once

#include <ATen/Functions.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/fakes/fake_clock.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "worker/checkpoint/checkpointer.hpp"

/// Checkpointers of a job, and states of every type and layout for them.
namespace trainyard::checkpoint {

inline const Identity identity{.job = "team/a", .job_uid = "uid", .attempt = 1, .fingerprint = "f"};

/// A tensor of random bits, which for floats include NaNs and infinities.
inline torch::Tensor random_bits(std::vector<std::int64_t> shape, torch::ScalarType type) {
  if (type == torch::kBool) return torch::randint(0, 2, shape, torch::kInt32).to(torch::kBool);
  std::vector<std::int64_t> byte_shape = shape;
  byte_shape.push_back(static_cast<std::int64_t>(c10::elementSize(type)));
  return torch::randint(0, 256, byte_shape, torch::kUInt8).view(type).reshape(shape);
}

inline std::vector<torch::ScalarType> all_types() {
  return {torch::kFloat64,       torch::kFloat32,       torch::kFloat16,        torch::kBFloat16, torch::kFloat8_e5m2,
          torch::kFloat8_e4m3fn, torch::kInt64,         torch::kInt32,          torch::kInt16,    torch::kInt8,
          torch::kUInt8,         torch::kUInt16,        torch::kUInt32,         torch::kUInt64,   torch::kBool,
          torch::kComplexFloat,  torch::kComplexDouble, torch::kFloat8_e4m3fnuz};
}

inline State a_state(std::uint64_t seed) {
  static std::mutex mutex;  // guards torch's default generator, which the ranks' threads share
  const std::scoped_lock lock{mutex};
  torch::manual_seed(seed);
  State state;
  for (const torch::ScalarType type : all_types()) {
    state.entries.push_back(
        {fmt::format("type.{}", c10::toString(type)), Placement::replicated, random_bits({3, 5}, type)});
  }
  state.entries.push_back({"scalar", Placement::replicated, torch::rand({})});
  state.entries.push_back({"empty", Placement::replicated, torch::empty({0, 3})});
  state.entries.push_back({"transposed", Placement::replicated, torch::rand({4, 6}).t()});
  state.entries.push_back({"strided", Placement::replicated, torch::rand({8, 8}).slice(1, 0, 8, 2)});
  state.entries.push_back({"large", Placement::replicated, torch::rand({1024, 700})});
  state.entries.push_back({"buffer", Placement::rank0, torch::rand({7})});
  state.entries.push_back({"rng", Placement::per_rank, torch::randint(0, 256, {5056}, torch::kUInt8)});
  state.values = {{"step", 10}};
  return state;
}

inline bool has_equal_bytes(const torch::Tensor& a, const torch::Tensor& b) {
  const torch::Tensor x = a.contiguous();
  const torch::Tensor y = b.contiguous();
  return x.scalar_type() == y.scalar_type() && x.sizes() == y.sizes() &&
         std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) == 0;
}

inline void expect_equal(const State& a, const State& b) {
  ASSERT_EQ(a.entries.size(), b.entries.size());
  for (std::size_t i = 0; i < a.entries.size(); ++i) {
    EXPECT_TRUE(has_equal_bytes(a.entries[i].tensor, b.entries[i].tensor)) << a.entries[i].name;
  }
}

/// Begins a save and waits for its end.
inline Result<Saved> save(Checkpointer& checkpointer, const State& state, std::int64_t step) {
  checkpointer.begin_save(state, step, {});
  const auto outcome = checkpointer.take_outcome(std::chrono::minutes{1});
  if (!outcome) return fail(ErrorKind::timeout, "the save does not end");
  if (!outcome->saved) return tl::unexpected(outcome->saved.error());
  if (!*outcome->saved) return fail(ErrorKind::invalid, "the state is not sound");
  return **outcome->saved;
}

struct ACheckpointer : testing::Test {
  [[nodiscard]] api::CheckpointSpec spec() const {
    api::CheckpointSpec spec;
    spec.uri = folder.uri() + "/run";
    return spec;
  }
  [[nodiscard]] std::unique_ptr<Checkpointer> open(Communicator& communicator, std::int64_t attempt = 1) const {
    Identity who = identity;
    who.attempt = attempt;
    auto opened = open_checkpointer(spec(), who, communicator, clock);
    return opened ? std::move(*opened) : nullptr;
  }
  [[nodiscard]] std::unique_ptr<Checkpointer> open(std::unique_ptr<storage::Store> store, Communicator& communicator,
                                                   std::int64_t attempt = 1) const {
    Identity who = identity;
    who.attempt = attempt;
    auto opened = open_checkpointer(std::move(store), spec(), who, communicator, clock);
    return opened ? std::move(*opened) : nullptr;
  }

  fakes::TemporaryFolder folder;
  fakes::FakeClock clock;
  SingleCommunicator single;
};

}  // namespace trainyard::checkpoint
