#include "worker/train/tensor_exchange.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <cstring>
#include <exception>
#include <map>
#include <stdexcept>

#include "worker/dist/torch_error.hpp"
#include "worker/strategy/exchange_failed.hpp"

namespace trainyard::train {
namespace {

constexpr std::size_t text_shown_max = 200;
constexpr std::int64_t text_message_bytes = 256;

std::string shown(std::string text) {
  if (text.size() > text_shown_max) text = text.substr(0, text_shown_max) + "...";
  return text.substr(0, text.find('\n'));
}

torch::Tensor bytes_of(const torch::Tensor& tensor) {
  return tensor.detach().resolve_conj().resolve_neg().contiguous().reshape({-1}).view(torch::kUInt8);
}

/// `text` as a message of a fixed size, which ends with a zero. The ranks' programs are one, and so are their hashes.
torch::Tensor message_of_text(std::string_view text) {
  std::string sent{text};
  if (sent.size() >= static_cast<std::size_t>(text_message_bytes))
    sent = fmt::format("{}... ({:016x})", text.substr(0, text_shown_max), std::hash<std::string_view>{}(text));
  torch::Tensor message = torch::zeros({text_message_bytes}, torch::kUInt8);
  std::memcpy(message.mutable_data_ptr(), sent.data(), sent.size());
  return message;
}

}  // namespace

std::string describe_tensors(const std::vector<torch::Tensor>& tensors) {
  std::vector<std::string> each;
  for (const torch::Tensor& tensor : tensors) {
    each.push_back(fmt::format("{} [{}] on {}", c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "),
                               tensor.is_cpu() ? "the CPU" : "the device"));
  }
  return each.empty() ? "no tensor" : fmt::format("{}", fmt::join(each, "; "));
}

void check_equal_calls(std::span<const std::string> texts, std::span<const std::int64_t> ranks, std::string_view what) {
  const auto rank_of = [&](std::size_t place) {
    return ranks.empty() ? static_cast<std::int64_t>(place) : ranks[place];
  };
  for (std::size_t place = 1; place < texts.size(); ++place) {
    if (texts[place] == texts.front()) continue;
    throw std::invalid_argument{
        fmt::format("{} needs equal shapes and types on all ranks, in calls that all ranks make alike: rank {} sent "
                    "'{}', rank {} sent '{}'",
                    what, rank_of(0), shown(texts.front()), rank_of(place), shown(texts[place]))};
  }
}

std::vector<std::string> TensorExchange::gather_texts(std::string_view text, std::string_view what) const {
  const torch::Tensor of_all = gather_bytes(message_of_text(text), what);
  std::vector<std::string> texts;
  for (std::int64_t place = 0; place < of_all.size(0); ++place)
    texts.emplace_back(static_cast<const char*>(of_all[place].const_data_ptr()));
  return texts;
}

std::vector<torch::Tensor> TensorExchange::all_gather(const std::vector<torch::Tensor>& tensors,
                                                      std::string_view what) const {
  std::map<bool, std::vector<std::size_t>> places;  // by is_cpu()
  for (std::size_t index = 0; index < tensors.size(); ++index) places[tensors[index].is_cpu()].push_back(index);
  std::vector<torch::Tensor> stacked(tensors.size());
  for (const auto& [is_cpu, indices] : places) {
    std::vector<torch::Tensor> parts;
    for (const std::size_t index : indices) parts.push_back(bytes_of(tensors[index]));
    const torch::Tensor of_all = gather_bytes(torch::cat(parts), what);
    std::int64_t begin = 0;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      const torch::Tensor& own = tensors[indices[part]];
      std::vector<std::int64_t> shape{size()};
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

torch::Tensor TensorExchange::broadcast(const torch::Tensor& tensor, std::int64_t root, std::string_view what) const {
  const torch::Tensor bytes = bytes_of(tensor).clone();
  if (size() > 1 && bytes.numel() > 0) {
    std::vector<torch::Tensor> message{bytes};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    run([&] { return process_group_->broadcast(message, options); }, bytes.is_cpu(), what);
  }
  return bytes.view(tensor.scalar_type()).reshape(tensor.sizes());
}

void TensorExchange::reduce(const torch::Tensor& message, c10d::ReduceOp::RedOpType op, std::string_view what) const {
  if (size() == 1 || message.numel() == 0) return;
  std::vector<torch::Tensor> messages{message};
  c10d::AllreduceOptions options;
  options.reduceOp = op;
  run([&] { return process_group_->allreduce(messages, options); }, message.is_cpu(), what);
}

/// The `bytes` of all ranks: uint8 [ranks, B].
torch::Tensor TensorExchange::gather_bytes(const torch::Tensor& bytes, std::string_view what) const {
  if (size() == 1 || bytes.numel() == 0) return bytes.reshape({1, -1}).expand({size(), -1});
  std::vector<std::vector<torch::Tensor>> received(1);
  for (std::int64_t rank = 0; rank < size(); ++rank) received.front().push_back(torch::empty_like(bytes));
  std::vector<torch::Tensor> sent{bytes};
  run([&] { return process_group_->allgather(received, sent); }, bytes.is_cpu(), what);
  return torch::stack(received.front());
}

void TensorExchange::run(const std::function<c10::intrusive_ptr<c10d::Work>()>& begin, bool is_on_cpu,
                         std::string_view what) const {
  c10::intrusive_ptr<c10d::Work> work;
  try {
    work = begin();
  } catch (const std::exception& error) {
    const bool is_own = !is_on_cpu && dist::failed_part(error) != dist::FailedPart::communication;
    if (is_own) throw;  // This rank's device has failed.
    throw strategy::ExchangeFailed{
        {.kind = ErrorKind::unavailable,
         .message = fmt::format("sending the tensors of {}: {}", what, dist::message_of(error)),
         .retry_after = {}}};
  }
  if (const auto done = wait_(work, what); !done) throw strategy::ExchangeFailed{done.error()};
}

}  // namespace trainyard::train
