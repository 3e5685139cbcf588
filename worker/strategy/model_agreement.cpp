#include "worker/strategy/model_agreement.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <cstddef>
#include <span>
#include <string_view>

#include "common/try.hpp"
#include "common/word_hash.hpp"

namespace trainyard::strategy {
namespace {

std::vector<std::string> describe(const NamedTensors& tensors) {
  std::vector<std::string> lines;
  for (const auto& [name, tensor] : tensors) {
    lines.push_back(
        fmt::format("{} {} [{}]", name, c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", ")));
  }
  return lines;
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
  return lines;
}

std::string first_difference(std::string_view ours, std::string_view theirs, std::size_t their_rank) {
  const auto our_lines = split_lines(ours);
  const auto their_lines = split_lines(theirs);
  for (std::size_t index = 0; index < std::max(our_lines.size(), their_lines.size()); ++index) {
    const std::string_view our_line = index < our_lines.size() ? our_lines[index] : "nothing";
    const std::string_view their_line = index < their_lines.size() ? their_lines[index] : "nothing";
    if (our_line != their_line) {
      return fmt::format("the ranks' models differ: tensor {} is '{}' on rank 0 and '{}' on rank {}", index, our_line,
                         their_line, their_rank);
    }
  }
  return "the ranks' models differ";
}

}  // namespace

Result<void> agree_on_layout(const NamedTensors& tensors, checkpoint::Communicator& communicator) {
  const std::string ours = fmt::format("{}", fmt::join(describe(tensors), "\n"));
  const auto hashes =
      TRY(communicator.all_gather(fmt::format("{:016x}", word_hash(word_hash_start, std::as_bytes(std::span{ours})))));
  if (std::all_of(hashes.begin(), hashes.end(), [&](const std::string& hash) { return hash == hashes.front(); }))
    return {};

  const auto all = TRY(communicator.all_gather(ours));
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] != all.front()) return fail(ErrorKind::invalid, first_difference(all.front(), all[rank], rank));
  }
  return {};
}

std::uint64_t checksum(const NamedTensors& tensors) {
  std::uint64_t hash = word_hash_start;
  for (const auto& [name, tensor] : tensors) {
    const torch::Tensor bytes = tensor.detach().cpu().contiguous();
    hash = word_hash(hash, {static_cast<const std::byte*>(bytes.const_data_ptr()), bytes.nbytes()});
  }
  return hash;
}

Result<std::uint64_t> agree_on_values(const NamedTensors& tensors, checkpoint::Communicator& communicator) {
  const std::uint64_t ours = checksum(tensors);
  const auto all = TRY(communicator.all_gather(fmt::format("{:016x}", ours)));
  std::vector<std::size_t> different;
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] != all.front()) different.push_back(rank);
  }
  if (!different.empty()) {
    return fail(ErrorKind::corrupt,
                fmt::format("the parameters of rank {} are not bit-equal to rank 0's: checksums by rank {}",
                            fmt::join(different, ", "), fmt::join(all, ", ")));
  }
  return ours;
}

}  // namespace trainyard::strategy
