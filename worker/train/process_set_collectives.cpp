#include "worker/train/process_set_collectives.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/rank/collective_name.hpp"
#include "worker/train/tensor_exchange.hpp"

namespace trainyard::train {
namespace {

constexpr std::size_t set_ranks_shown_max = 8;

std::string_view name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::mean:
      return "mean";
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::min:
      return "min";
    case ReduceOp::max:
      return "max";
  }
  return "?";
}

/// Gloo has no mean.
c10d::ReduceOp::RedOpType op_sent(ReduceOp op) {
  switch (op) {
    case ReduceOp::min:
      return c10d::ReduceOp::MIN;
    case ReduceOp::max:
      return c10d::ReduceOp::MAX;
    default:
      return c10d::ReduceOp::SUM;
  }
}

/// The dtype in which numbers of the real `type` are sent to be reduced: Gloo and NCCL reduce each of these dtypes, and
/// a sum of short floats would be rounded once for each rank. Nothing where there is none.
std::optional<torch::ScalarType> type_sent(torch::ScalarType type) {
  if (c10::isReducedFloatingType(type)) return torch::kFloat;
  switch (type) {
    case torch::kFloat:
    case torch::kDouble:
    case torch::kChar:
    case torch::kByte:
    case torch::kInt:
    case torch::kLong:
      return type;
    case torch::kBool:
      return torch::kByte;
    case torch::kShort:
    case torch::kUInt16:
      return torch::kInt;
    case torch::kUInt32:
      return torch::kLong;
    default:
      return std::nullopt;
  }
}

/// Why a tensor of `type` has no such reduction; empty where it has one.
std::string_view why_not(torch::ScalarType type, ReduceOp op) {
  const bool adds = op == ReduceOp::mean || op == ReduceOp::sum;
  if (type == torch::kBool && adds) return "bool has min (all members) and max (any member) alone";
  if (op == ReduceOp::mean && c10::isIntegralType(type, /*includeBool=*/false))
    return "the mean of integers is no integer: convert the tensor to a float before";
  if (c10::isComplexType(type)) return adds ? "" : "complex numbers have no order";
  return type_sent(type) ? "" : "this dtype cannot be reduced: convert the tensor before";
}

class SetOfRanks final : public ProcessSet {
 public:
  explicit SetOfRanks(ProcessSetParts parts) : parts_{std::move(parts)}, exchange_{parts_.process_group, parts_.wait} {}

  [[nodiscard]] const std::vector<std::int64_t>& ranks() const override { return parts_.ranks; }
  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(parts_.ranks.size()); }
  [[nodiscard]] bool includes_this_rank() const override { return number_of(parts_.rank).has_value(); }
  [[nodiscard]] std::int64_t rank() const override {
    check_is_member("rank");
    return *number_of(parts_.rank);
  }

  [[nodiscard]] torch::Tensor all_reduce(const torch::Tensor& tensor, ReduceOp op) const override {
    const torch::NoGradGuard no_grad;
    const std::string what = agree_on_call("all_reduce", tensor, fmt::format("all_reduce ({})", name_of(op)));
    if (const std::string_view why = why_not(tensor.scalar_type(), op); !why.empty()) {
      throw std::invalid_argument{
          fmt::format("{}: {} of {}: {}", what, name_of(op), c10::toString(tensor.scalar_type()), why)};
    }
    const torch::Tensor values = tensor.is_complex() ? torch::view_as_real(tensor.resolve_conj()) : tensor;
    const torch::Tensor message =
        torch::empty(values.sizes(), values.options().dtype(*type_sent(values.scalar_type()))).copy_(values);
    exchange_.reduce(message, op_sent(op), what);
    if (op == ReduceOp::mean) message.div_(size());
    const torch::Tensor reduced = message.to(values.scalar_type());
    return tensor.is_complex() ? torch::view_as_complex(reduced) : reduced;
  }

  [[nodiscard]] torch::Tensor all_gather(const torch::Tensor& tensor) const override {
    const torch::NoGradGuard no_grad;
    const std::string what = agree_on_call("all_gather", tensor, "all_gather");
    return exchange_.all_gather({tensor}, what).front();
  }

  [[nodiscard]] torch::Tensor broadcast(const torch::Tensor& tensor, std::int64_t root_rank) const override {
    const torch::NoGradGuard no_grad;
    const std::string what = agree_on_call("broadcast", tensor, fmt::format("broadcast from rank {}", root_rank));
    const auto root = number_of(root_rank);
    if (!root) throw std::invalid_argument{fmt::format("{} from rank {}, which is not in {}", what, root_rank, text())};
    return exchange_.broadcast(tensor, *root, what);
  }

 private:
  [[nodiscard]] std::optional<std::int64_t> number_of(std::int64_t rank) const {
    const auto found = std::ranges::lower_bound(parts_.ranks, rank);
    if (found == parts_.ranks.end() || *found != rank) return std::nullopt;
    return found - parts_.ranks.begin();
  }

  /// Such as `the process set "encoder" (ranks 0, 2)`.
  [[nodiscard]] std::string text() const {
    const std::span<const std::int64_t> named{parts_.ranks.data(), std::min(parts_.ranks.size(), set_ranks_shown_max)};
    std::string text = fmt::format("the process set \"{}\" ({} {}", parts_.name, size() == 1 ? "rank" : "ranks",
                                   fmt::join(named, ", "));
    if (named.size() < parts_.ranks.size()) text += fmt::format(" and {} more", parts_.ranks.size() - named.size());
    return text + ")";
  }

  void check_is_member(std::string_view call) const {
    if (includes_this_rank()) return;
    throw std::logic_error{
        fmt::format("{}() of {} was called by rank {}, which is not in it: ask includes_this_rank() before", call,
                    text(), parts_.rank)};
  }

  /// Compares this rank's call with those of the other members. Returns the name of the collective in messages.
  [[nodiscard]] std::string agree_on_call(std::string_view call, const torch::Tensor& tensor,
                                          std::string_view words) const {
    check_is_member(call);
    std::string what = rank::name_of_set_collective(call, parts_.name, size());
    if (!tensor.defined() || tensor.layout() != torch::kStrided) {
      throw std::invalid_argument{fmt::format("{} takes a dense tensor, and this one is {}", what,
                                              tensor.defined() ? "not dense" : "undefined")};
    }
    const std::string own = fmt::format("{} of {}", words, describe_tensors({tensor}));
    check_equal_calls(exchange_.gather_texts(own, what), parts_.ranks, what);
    return what;
  }

  ProcessSetParts parts_;
  TensorExchange exchange_;
};

}  // namespace

std::unique_ptr<const ProcessSet> make_process_set(ProcessSetParts parts) {
  return std::make_unique<SetOfRanks>(std::move(parts));
}

}  // namespace trainyard::train
