#include "worker/train/rank_context.hpp"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <stdexcept>
#include <string>

#include "worker/strategy/exchange_failed.hpp"
#include "worker/train/tensor_exchange.hpp"

namespace trainyard::train {

RankContext RankContext::of_replica(torch::Device device) const {
  RankContext context{*this};
  context.parts_.device = device;
  context.is_of_replica_ = true;
  return context;
}

void RankContext::check_is_no_replica(std::string_view call, std::string_view action) const {
  if (is_of_replica_) {
    throw std::logic_error{
        fmt::format("{}() was called by a replica of the model, which has a part of this rank's batch (strategy dp or "
                    "ddp2): {} in the function that follows the step, such as training_step_end(), or in a callback",
                    call, action)};
  }
}

const ProcessSet& RankContext::process_set(std::string_view name) const {
  check_is_no_replica("process_set", "use process sets");
  static const ProcessSets none;
  return (parts_.process_sets != nullptr ? *parts_.process_sets : none).at(name);
}

std::vector<torch::Tensor> RankContext::all_gather(const std::vector<torch::Tensor>& tensors) const {
  check_is_no_replica("all_gather", "gather");
  const torch::NoGradGuard no_grad;
  check_equal_on_all_ranks(tensors);
  return TensorExchange{parts_.process_group, parts_.wait}.all_gather(tensors, "all_gather");
}

void RankContext::check_equal_on_all_ranks(const std::vector<torch::Tensor>& tensors) const {
  if (world_size() == 1) return;
  const auto texts = parts_.communicator.all_gather("all_gather of " + describe_tensors(tensors));
  if (!texts) throw strategy::ExchangeFailed{texts.error()};
  check_equal_calls(*texts, {}, "all_gather");
}

}  // namespace trainyard::train
