#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fakes/temporary_folder.hpp"
#include "tests/paths/paths.hpp"
#include "tests/worker/fakes/plain_wait.hpp"
#include "tests/worker/fakes/rank_threads.hpp"
#include "tests/worker/strategy/tiny_model.hpp"
#include "worker/strategy/ddp.hpp"

namespace trainyard::strategy {

inline constexpr double tiny_lr = 0.1;
/// So small that the tiny model has several buckets.
inline constexpr BucketLimits small_limits{.first_bytes = 100, .bytes = 1000};

using fakes::plain_wait;

inline Ddp make_ddp(const torch::nn::Module& module, fakes::RankThread& rank,
                    const DdpOptions& options = {.limits = small_limits}) {
  return Ddp{parameters_of(module), buffers_of(module), rank.process_group, *rank.communicator, plain_wait, options};
}

inline void train_step(GradientSync& gradients, TinyModel& model, const TinyBatch& batch,
                       bool trains_head_only = false) {
  gradients.zero_gradients();
  const torch::Tensor loss = [&] {
    const ForwardScope scope{gradients};
    return loss_of(model, batch, trains_head_only);
  }();
  gradients.begin_backward(/*is_last_batch=*/true);
  loss.backward();
  const auto done = gradients.finish_gradients();
  ASSERT_TRUE(done.has_value()) << done.error().message;
  descend(model, tiny_lr);
}

/// The state of each rank's model after each of `steps` steps of our DDP, from rank 0's weights: [steps, numbers].
inline std::vector<torch::Tensor> states_by_ddp(std::int64_t world_size, std::int64_t steps,
                                                const DdpOptions& options = {.limits = small_limits}) {
  std::vector<std::shared_ptr<TinyModel>> models;
  for (std::int64_t rank = 0; rank < world_size; ++rank) models.push_back(make_tiny_model(rank));
  std::vector<torch::Tensor> states(static_cast<std::size_t>(world_size));
  fakes::run_ranks(world_size, [&](fakes::RankThread& rank) {
    TinyModel& model = *models[static_cast<std::size_t>(rank.rank)];
    Ddp ddp = make_ddp(model, rank, options);
    ASSERT_TRUE(ddp.synchronize_model().has_value());
    std::vector<torch::Tensor> after_steps;
    for (std::int64_t step = 0; step < steps; ++step) {
      train_step(ddp, model, make_tiny_batch(step, rank.rank));
      after_steps.push_back(flat_state(model));
    }
    states[static_cast<std::size_t>(rank.rank)] = torch::stack(after_steps);
  });
  return states;
}

/// The last of states_by_ddp().
inline std::vector<torch::Tensor> train_by_ddp(std::int64_t world_size, std::int64_t steps,
                                               const DdpOptions& options = {.limits = small_limits}) {
  std::vector<torch::Tensor> last;
  for (const torch::Tensor& states : states_by_ddp(world_size, steps, options)) last.push_back(states[-1]);
  return last;
}

/// True when the Python of the oracles is there, with numpy. numpy comes with the full set of wheels, which `import
/// torch` needs; looking for it is quicker than importing either.
inline bool has_python_torch() {
  const std::string finds = " -c 'import importlib.util as u; exit(u.find_spec(\"numpy\") is None)' 2>/dev/null";
  return std::system((paths::torch_python() + finds).c_str()) == 0;
}

inline void write_bytes(const std::filesystem::path& file, const std::vector<torch::Tensor>& tensors) {
  std::ofstream out{file, std::ios::binary};
  for (const torch::Tensor& tensor : tensors) {
    const torch::Tensor dense = tensor.contiguous();
    out.write(static_cast<const char*>(dense.const_data_ptr()), static_cast<std::streamsize>(dense.nbytes()));
  }
}

/// The state of rank 0's model after each of the same steps of Python's DDP: [steps, numbers]. `way`: see
/// ddp_oracle.py.
inline torch::Tensor states_by_python(std::int64_t world_size, std::int64_t steps, const std::string& way = {}) {
  const fakes::TemporaryFolder folder;
  std::vector<torch::Tensor> images, labels;
  for (std::int64_t step = 0; step < steps; ++step) {
    for (std::int64_t rank = 0; rank < world_size; ++rank) {
      const TinyBatch batch = make_tiny_batch(step, rank);
      images.push_back(batch.images);
      labels.push_back(batch.labels);
    }
  }
  const torch::Tensor state = flat_state(*make_tiny_model(0));
  const std::filesystem::path place{folder.path()};
  write_bytes(place / "state.bin", {state});
  write_bytes(place / "images.bin", images);
  write_bytes(place / "labels.bin", labels);
  const std::string command = fmt::format("{} {} {} {} {} {} {} > {}/log 2>&1", paths::torch_python(),
                                          paths::source("tests/worker/strategy/ddp_oracle.py"), folder.path(),
                                          world_size, steps, tiny_lr, way, folder.path());
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  torch::Tensor states = torch::zeros({steps, state.numel()});
  std::ifstream{place / "result.bin", std::ios::binary}.read(static_cast<char*>(states.mutable_data_ptr()),
                                                             static_cast<std::streamsize>(states.nbytes()));
  return states;
}

}  // namespace trainyard::strategy
