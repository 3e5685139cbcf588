#include "worker/train/rank_context.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstddef>
#include <exception>
#include <map>
#include <stdexcept>
#include <string>

#include "worker/dist/torch_error.hpp"
#include "worker/strategy/exchange_failed.hpp"

namespace trainyard::train {
namespace {

/// One line, without a line's end: the message of reduced metrics always has one, so that the two are told apart.
std::string describe(const std::vector<torch::Tensor>& tensors) {
  std::vector<std::string> each;
  for (const torch::Tensor& tensor : tensors) {
    each.push_back(fmt::format("{} [{}] on {}", c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "),
                               tensor.is_cpu() ? "the CPU" : "the device"));
  }
  return fmt::format("all_gather of {}", each.empty() ? "no tensor" : fmt::format("{}", fmt::join(each, "; ")));
}

constexpr std::size_t text_shown_max = 200;

std::string shown(std::string text) {
  if (text.size() > text_shown_max) text = text.substr(0, text_shown_max) + "...";
  return text.substr(0, text.find('\n'));
}

torch::Tensor bytes_of(const torch::Tensor& tensor) {
  return tensor.detach().contiguous().reshape({-1}).view(torch::kUInt8);
}

}  // namespace

RankContext RankContext::of_replica(torch::Device device) const {
  RankContext context{*this};
  context.parts_.device = device;
  context.is_of_replica_ = true;
  return context;
}

std::vector<torch::Tensor> RankContext::all_gather(const std::vector<torch::Tensor>& tensors) const {
  if (is_of_replica_) {
    throw std::logic_error{
        "all_gather() was called by a replica of the model, which has a part of this rank's batch (strategy dp or "
        "ddp2): gather in training_step_end(), which has the whole batch, or in a callback"};
  }
  const torch::NoGradGuard no_grad;
  check_equal_on_all_ranks(tensors);
  std::map<bool, std::vector<std::size_t>> places;  // by is_cpu()
  for (std::size_t index = 0; index < tensors.size(); ++index) places[tensors[index].is_cpu()].push_back(index);
  std::vector<torch::Tensor> stacked(tensors.size());
  for (const auto& [is_cpu, indices] : places) {
    std::vector<torch::Tensor> parts;
    for (const std::size_t index : indices) parts.push_back(bytes_of(tensors[index]));
    const torch::Tensor of_all = exchange(torch::cat(parts));
    std::int64_t begin = 0;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      const torch::Tensor& own = tensors[indices[part]];
      std::vector<std::int64_t> shape{world_size()};
      shape.insert(shape.end(), own.sizes().begin(), own.sizes().end());
      const std::int64_t end = begin + parts[part].numel();
      // A view of another dtype needs bytes that begin at a multiple of its size, which a copy of its own has.
      const torch::Tensor bytes = of_all.slice(1, begin, end).clone(at::MemoryFormat::Contiguous).reshape({-1});
      stacked[indices[part]] = bytes.view(own.scalar_type()).reshape(shape);
      begin = end;
    }
  }
  return stacked;
}

void RankContext::check_equal_on_all_ranks(const std::vector<torch::Tensor>& tensors) const {
  if (world_size() == 1) return;
  const auto texts = parts_.communicator.all_gather(describe(tensors));
  if (!texts) throw strategy::ExchangeFailed{texts.error()};
  for (std::size_t rank = 1; rank < texts->size(); ++rank) {
    if ((*texts)[rank] == texts->front()) continue;
    throw std::invalid_argument{
        fmt::format("all_gather needs equal shapes and types on all ranks, in calls that all ranks make alike: rank 0 "
                    "sent '{}', rank {} sent '{}'",
                    shown(texts->front()), rank, shown((*texts)[rank]))};
  }
}

/// The `bytes` of all ranks: uint8 [world size, B].
torch::Tensor RankContext::exchange(const torch::Tensor& bytes) const {
  if (world_size() == 1 || bytes.numel() == 0) return bytes.reshape({1, -1}).expand({world_size(), -1});
  std::vector<std::vector<torch::Tensor>> received(1);
  for (std::int64_t rank = 0; rank < world_size(); ++rank) received.front().push_back(torch::empty_like(bytes));
  std::vector<torch::Tensor> sent{bytes};
  c10::intrusive_ptr<c10d::Work> work;
  try {
    work = parts_.process_group->allgather(received, sent);
  } catch (const std::exception& error) {
    const bool is_own = !bytes.is_cpu() && dist::failed_part(error) != dist::FailedPart::communication;
    if (is_own) throw;  // This rank's device has failed.
    throw strategy::ExchangeFailed{
        {.kind = ErrorKind::unavailable,
         .message = fmt::format("sending the tensors of all_gather: {}", dist::message_of(error)),
         .retry_after = {}}};
  }
  if (const auto done = parts_.wait(work, "all_gather"); !done) throw strategy::ExchangeFailed{done.error()};
  return torch::stack(received.front());
}

}  // namespace trainyard::train
