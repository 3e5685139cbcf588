#include "worker/strategy/own_buffers.hpp"

#include <torch/types.h>
#include <torch/utils.h>

namespace trainyard::strategy {

OwnBuffers::OwnBuffers(const NamedTensors& buffers) : is_saved_{torch::zeros({1}, torch::kUInt8)} {
  for (const auto& [name, buffer] : buffers)
    kept_.push_back({.name = name, .buffer = buffer.detach(), .copy = buffer.detach().clone()});
}

void OwnBuffers::before_save() {
  const torch::NoGradGuard no_grad;
  for (Kept& kept : kept_) kept.copy.copy_(kept.buffer);
  is_saved_.fill_(1);
}

void OwnBuffers::after_restore() {
  const torch::NoGradGuard no_grad;
  if (is_saved_.item<bool>()) {
    for (Kept& kept : kept_) kept.buffer.copy_(kept.copy);
  }
}

NamedTensors OwnBuffers::state() const {
  NamedTensors state{{"has_buffers", is_saved_}};
  for (const Kept& kept : kept_) state.emplace_back("buffer." + kept.name, kept.copy);
  return state;
}

}  // namespace trainyard::strategy
