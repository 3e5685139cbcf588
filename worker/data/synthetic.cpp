#include "worker/data/synthetic.hpp"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <string>
#include <utility>

#include "common/check.hpp"
#include "include/trainyard/options.hpp"

namespace trainyard::data {
namespace {

constexpr std::int64_t block_side = 4;
constexpr std::int64_t patterns_a_time = 1024;
constexpr std::int64_t bytes_max = std::int64_t{8} << 30;

torch::Generator make_generator(std::int64_t seed) {
  return at::detail::createCPUGenerator(static_cast<std::uint64_t>(seed));
}

std::int64_t part_number(Part part) {
  return part == Part::train ? 0 : 1;
}

void check_size(std::int64_t samples, std::int64_t sample_bytes) {
  check(samples > 0, "there is at least one sample");
  if (samples <= bytes_max / sample_bytes) return;
  throw InvalidJob{
      fmt::format("training.data.samples: {} synthetic samples of {} bytes each would take more than 8 GiB of memory; "
                  "set it to {} or less",
                  samples, sample_bytes, bytes_max / sample_bytes)};
}

/// Sequences in the memory of one device.
class SyntheticTokens final : public Dataset {
 public:
  /// tokens: int32 [N, T + 1].
  SyntheticTokens(torch::Tensor tokens, std::int64_t vocabulary, std::string id)
      : tokens_{std::move(tokens)}, vocabulary_{vocabulary}, id_{std::move(id)} {}

  [[nodiscard]] std::int64_t size() const override { return tokens_.size(0); }
  [[nodiscard]] Batch gather(const torch::Tensor& ids) const override {
    // A copy from pinned memory does not wait for the device.
    const torch::Tensor places = tokens_.is_cpu() ? ids : ids.pin_memory().to(tokens_.device(), /*non_blocking=*/true);
    const torch::Tensor both = tokens_.index_select(0, places).to(torch::kInt64);
    const std::int64_t length = both.size(1) - 1;
    return {.inputs = both.slice(1, 0, length).contiguous(), .targets = both.slice(1, 1).contiguous(), .ids = ids};
  }
  [[nodiscard]] std::int64_t classes() const override { return vocabulary_; }
  [[nodiscard]] std::string id() const override { return id_; }

 private:
  torch::Tensor tokens_;
  std::int64_t vocabulary_;
  std::string id_;
};

}  // namespace

SyntheticImages read_synthetic_images(const Options& options) {
  const SyntheticImages otherwise;
  return {.channels = options.integer("channels", otherwise.channels, {.min = 1, .max = 1024}),
          .size = options.integer("size", otherwise.size, {.min = 1, .max = 8192}),
          .classes = options.integer("classes", otherwise.classes, {.min = 2, .max = 1'000'000})};
}

LabeledImages make_synthetic_images(std::int64_t samples, std::int64_t seed, Part part, const SyntheticImages& images) {
  const auto& [channels, size, classes] = images;
  check_size(samples, channels * size * size);
  auto of_task = make_generator(seed);
  // The patterns are coarse blocks rather than single pixels, so that a convolution can learn them.
  const std::int64_t blocks_a_side = (size + block_side - 1) / block_side;
  const std::int64_t side = blocks_a_side * block_side;
  if (classes > bytes_max / (channels * side * side)) {
    throw InvalidJob{
        fmt::format("training.data.options.classes: the patterns of {} classes would take more than 8 GiB of memory; "
                    "set it to {} or "
                    "less",
                    classes, bytes_max / (channels * side * side))};
  }
  const torch::Tensor blocks =
      torch::randint(0, 128, {classes, channels, blocks_a_side, blocks_a_side}, of_task, torch::kUInt8);
  const torch::Tensor patterns =
      blocks.repeat_interleave(block_side, 2).repeat_interleave(block_side, 3).slice(2, 0, size).slice(3, 0, size);

  auto of_part = make_generator(seed + 1 + part_number(part));
  torch::Tensor labels = torch::randint(0, classes, {samples}, of_part, torch::kInt64);
  torch::Tensor made = torch::randint(0, 128, {samples, channels, size, size}, of_part, torch::kUInt8);
  // A part at a time, because the selected patterns take as much memory as the images.
  for (std::int64_t begin = 0; begin < samples; begin += patterns_a_time) {
    const std::int64_t end = std::min(begin + patterns_a_time, samples);
    made.slice(0, begin, end).add_(patterns.index_select(0, labels.slice(0, begin, end)));
  }
  return {.images = std::move(made), .labels = std::move(labels)};
}

bool asks_for_tokens(const Options& options) {
  return options.contains("sequenceLength");
}

std::unique_ptr<Dataset> make_synthetic_tokens(const DataSource& source, std::int64_t samples, Part part) {
  const std::int64_t length = source.options.integer("sequenceLength", {}, {.min = 1, .max = std::int64_t{1} << 20});
  const std::int64_t vocabulary = source.options.integer("vocabulary", 50'257, {.min = 2, .max = 10'000'000});
  check_size(samples, (length + 1) * static_cast<std::int64_t>(sizeof(std::int64_t)));
  auto generator = make_generator(source.seed + 1 + part_number(part));
  // From one token to the next it is a fixed step or one more, around the vocabulary.
  const std::int64_t step = vocabulary / 3;
  torch::Tensor steps = torch::randint(0, 2, {samples, length + 1}, generator, torch::kInt64).add_(step);
  steps.select(1, 0).copy_(torch::randint(0, vocabulary, {samples}, generator, torch::kInt64));
  const torch::Tensor tokens = steps.cumsum_(1).remainder_(vocabulary).to(source.device, torch::kInt32);
  return std::make_unique<SyntheticTokens>(
      tokens, vocabulary, fmt::format("synthetic-tokens-{}-{}-{}-{}", samples, length, vocabulary, source.seed));
}

}  // namespace trainyard::data
