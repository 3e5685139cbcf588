#include "worker/dist/chosen_gpus.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string_view>

#include "common/try.hpp"

namespace trainyard::dist {
namespace {

using Kind = api::DeviceChoice::Kind;

std::string counted(std::int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

/// "training.devices asks for GPUs 1, 3".
std::string asked_text(const api::DeviceChoice& choice) {
  constexpr std::string_view asks = "training.devices asks for";
  switch (choice.kind) {
    case Kind::all:
      return fmt::format("{} all GPUs", asks);
    case Kind::first:
      return fmt::format("{} {}", asks, counted(choice.count, "device"));
    case Kind::listed:
      break;
  }
  return fmt::format("{} GPU{} {}", asks, choice.indices.size() == 1 ? "" : "s", fmt::join(choice.indices, ", "));
}

Result<void> check_on_cpu(const DeviceRequest& request) {
  if (request.spec.accelerator == api::Accelerator::gpu) {
    return fail(ErrorKind::invalid,
                fmt::format("training.accelerator is gpu, but {} has no GPU for its ranks: start them where GPUs are, "
                            "or name cpu or auto",
                            request.node));
  }
  const auto& choice = request.spec.devices;
  if (!choice || (choice->kind == Kind::first && choice->count == request.ranks)) return {};
  return fail(
      ErrorKind::invalid,
      fmt::format("{}, but on {} {} on the CPU: write {}, or leave devices out", asked_text(*choice), request.node,
                  request.ranks == 1 ? "1 rank trains" : counted(request.ranks, "rank") + " train", request.ranks));
}

/// The GPUs of `gpu_count` that `choice` names.
Result<std::vector<std::int64_t>> find_chosen(const api::DeviceChoice& choice, std::int64_t gpu_count,
                                              const std::string& node) {
  std::vector<std::int64_t> numbers = choice.indices;
  if (choice.kind != Kind::listed) {
    numbers.resize(static_cast<std::size_t>(choice.kind == Kind::first ? choice.count : gpu_count));
    std::iota(numbers.begin(), numbers.end(), 0);
  }
  if (std::ranges::all_of(numbers, [&](std::int64_t number) { return number < gpu_count; })) return numbers;
  return fail(ErrorKind::invalid, fmt::format("{}, but {} has {}, counted from 0: name those that it has",
                                              asked_text(choice), node, counted(gpu_count, "GPU")));
}

}  // namespace

Result<std::vector<std::int64_t>> choose_gpus_of_node(const DeviceRequest& request, std::int64_t gpu_count) {
  if (gpu_count == 0) {
    TRY(check_on_cpu(request));
    return std::vector<std::int64_t>{};
  }
  const auto& choice = request.spec.devices;
  auto numbers = TRY(find_chosen(choice.value_or(api::DeviceChoice{}), gpu_count, request.node));
  const auto chosen = static_cast<std::int64_t>(numbers.size());
  if (!choice || request.is_of_one_rank || chosen == request.ranks) return numbers;
  return fail(ErrorKind::invalid,
              fmt::format("{}, which are {} of {}, but {} started there, and each trains on one: start {}, or leave "
                          "devices out",
                          asked_text(*choice), chosen, request.node,
                          request.ranks == 1 ? "1 rank was" : counted(request.ranks, "rank") + " were",
                          counted(chosen, "rank")));
}

}  // namespace trainyard::dist
