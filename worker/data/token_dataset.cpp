#include "worker/data/token_dataset.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "common/try.hpp"
#include "common/word_hash.hpp"

namespace trainyard::data {
namespace {

static_assert(std::endian::native == std::endian::little, "tokens are read as they lie in the file");

constexpr std::int64_t token_bytes = sizeof(std::uint16_t);
constexpr std::int64_t sequence_length_max = std::int64_t{1} << 20;
constexpr std::int64_t vocabulary_max = 65'536;
constexpr std::int64_t hashed_tokens = 4096;
/// llm.c's files of tokens begin with this number of 32 bits, in a header of 1024 bytes.
constexpr std::array<std::uint16_t, 2> llm_c_beginning{20240520 & 0xffff, 20240520 >> 16};

}  // namespace

TokenOptions read_token_options(const Options& options) {
  TokenOptions read;
  read.sequence_length = options.integer("sequenceLength", 1024, {.min = 1, .max = sequence_length_max});
  if (options.contains("vocabulary"))
    read.vocabulary = options.integer("vocabulary", {}, {.min = 1, .max = vocabulary_max});
  return read;
}

Result<std::unique_ptr<TokenDataset>> TokenDataset::open(const std::filesystem::path& file,
                                                         const TokenOptions& options) {
  auto opened = TRY(RandomAccessFile::open(
      file,
      "set training.data.path to the folder with train.bin and val.bin, or training.data.options: {validation: false} "
      "to train without val.bin"));
  const std::int64_t bytes = opened.bytes();
  if (bytes % token_bytes != 0) {
    return fail(ErrorKind::invalid, fmt::format("{} has {} bytes, an odd number; tokens have two bytes each, so that "
                                                "it was cut off or is another format",
                                                file.string(), bytes));
  }
  const std::int64_t tokens = bytes / token_bytes;
  if (tokens <= options.sequence_length) {
    return fail(ErrorKind::invalid,
                fmt::format("{} has {} tokens; a sample of training.data.options.sequenceLength {} needs {}",
                            file.string(), tokens, options.sequence_length, options.sequence_length + 1));
  }
  std::unique_ptr<TokenDataset> dataset{new TokenDataset{file, std::move(opened), tokens, options}};
  std::vector<std::uint16_t> first(static_cast<std::size_t>(std::min(tokens, hashed_tokens)));
  TRY(dataset->read(0, static_cast<std::int64_t>(first.size()), first.data()));
  if (std::ranges::equal(std::span{first}.first(llm_c_beginning.size()), llm_c_beginning)) {
    return fail(
        ErrorKind::invalid,
        fmt::format("{} begins with the header of llm.c's files, which would be trained on as tokens; remove its "
                    "1024 bytes: tail -c +1025 FILE > NEW",
                    file.string()));
  }
  const std::array<std::int64_t, 2> sizes{tokens, options.sequence_length};
  dataset->id_ = fmt::format("{:016x}", word_hash(word_hash(word_hash_start, std::as_bytes(std::span{sizes})),
                                                  std::as_bytes(std::span{first})));
  return dataset;
}

TokenDataset::TokenDataset(std::filesystem::path path, RandomAccessFile file, std::int64_t tokens,
                           const TokenOptions& options)
    : path_{std::move(path)}, file_{std::move(file)}, tokens_{tokens}, options_{options} {}

Batch TokenDataset::gather(const torch::Tensor& ids) const {
  const std::int64_t length = options_.sequence_length;
  const std::int64_t count = ids.size(0);
  const torch::Tensor both = torch::empty({count, length + 1}, torch::kInt64);
  std::vector<std::uint16_t> tokens(static_cast<std::size_t>(length + 1));
  for (std::int64_t place = 0; place < count; ++place) {
    const std::int64_t first = ids[place].item<std::int64_t>() * length;
    if (const auto done = read(first, length + 1, tokens.data()); !done) throw std::runtime_error{done.error().message};
    check_vocabulary(first, length + 1, tokens.data());
    std::ranges::copy(tokens, both.data_ptr<std::int64_t>() + place * (length + 1));
  }
  return {.inputs = both.slice(1, 0, length).contiguous(), .targets = both.slice(1, 1).contiguous(), .ids = ids};
}

Result<void> TokenDataset::read(std::int64_t first, std::int64_t count, std::uint16_t* into) const {
  return file_.read(first * token_bytes, std::as_writable_bytes(std::span{into, static_cast<std::size_t>(count)}));
}

void TokenDataset::check_vocabulary(std::int64_t first, std::int64_t count, const std::uint16_t* tokens) const {
  if (!options_.vocabulary) return;
  const std::uint16_t* wrong = std::find_if(
      tokens, tokens + count, [this](std::uint16_t token) { return std::int64_t{token} >= *options_.vocabulary; });
  if (wrong == tokens + count) return;
  throw InvalidJob{fmt::format("{}: token number {} is {}, but training.data.options.vocabulary is {}", path_.string(),
                               first + (wrong - tokens), *wrong, *options_.vocabulary)};
}

}  // namespace trainyard::data
