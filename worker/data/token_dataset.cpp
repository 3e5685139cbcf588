#include "worker/data/token_dataset.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
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
  // O_NONBLOCK: the opening of a pipe would wait for its writer.
  FileDescriptor opened{::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat state {};
  if (!opened || ::fstat(opened.get(), &state) != 0) {
    if (errno == ENOENT) {
      return fail(
          ErrorKind::not_found,
          fmt::format("there is no file {}; set training.data.path to the folder with train.bin and val.bin, or "
                      "training.data.options: {{validation: false}} to train without val.bin",
                      file.string()));
    }
    return fail(ErrorKind::io, fmt::format("the tokens {} cannot be opened: {}", file.string(), std::strerror(errno)));
  }
  if (!S_ISREG(state.st_mode)) return fail(ErrorKind::invalid, fmt::format("{} is not a file", file.string()));
  const auto bytes = static_cast<std::int64_t>(state.st_size);
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

TokenDataset::TokenDataset(std::filesystem::path path, FileDescriptor file, std::int64_t tokens,
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
  auto* bytes = reinterpret_cast<char*>(into);
  std::int64_t done = 0;
  while (done < count * token_bytes) {
    const ssize_t got = ::pread(file_.get(), bytes + done, static_cast<std::size_t>(count * token_bytes - done),
                                first * token_bytes + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(ErrorKind::io, fmt::format("{} cannot be read: {}", path_.string(), std::strerror(errno)));
    if (got == 0) {
      return fail(ErrorKind::io, fmt::format("{} ends within the tokens {} to {}; it had {} tokens when it was opened",
                                             path_.string(), first, first + count - 1, tokens_));
    }
    done += got;
  }
  return {};
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
