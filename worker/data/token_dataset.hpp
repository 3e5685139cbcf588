#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "common/result.hpp"
#include "include/trainyard/data.hpp"
#include "worker/data/read_file.hpp"

namespace trainyard::data {

struct TokenOptions {
  std::int64_t sequence_length = 1024;
  std::optional<std::int64_t> vocabulary;  ///< Every token must be smaller.
};

/// The options sequenceLength and vocabulary. Throws InvalidJob.
[[nodiscard]] TokenOptions read_token_options(const Options& options);

/// A file of 16-bit tokens, least significant byte first and nothing else, as nanoGPT's prepare.py writes it. Sample i
/// is the `sequence_length` tokens from number i * sequence_length on; its target is the same, one token later. The
/// file is read sample by sample.
class TokenDataset final : public Dataset {
 public:
  /// not_found: there is no such file. invalid: it is no regular file, has an odd number of bytes, fewer tokens than
  /// one sample and the token after it, or the header of llm.c's files. io.
  [[nodiscard]] static Result<std::unique_ptr<TokenDataset>> open(const std::filesystem::path& file,
                                                                  const TokenOptions& options);

  [[nodiscard]] std::int64_t size() const override { return (tokens_ - 1) / options_.sequence_length; }
  /// inputs, targets: int64 [B, sequence_length] on the CPU. Throws InvalidJob for a token that is not in the
  /// vocabulary, std::runtime_error for a file that cannot be read.
  [[nodiscard]] Batch gather(const torch::Tensor& ids) const override;
  /// The vocabulary, if the job gives it.
  [[nodiscard]] std::int64_t classes() const override { return options_.vocabulary.value_or(0); }
  /// A checksum of the number of tokens, the first of them and the sequences' length.
  [[nodiscard]] std::string id() const override { return id_; }

 private:
  TokenDataset(std::filesystem::path path, RandomAccessFile file, std::int64_t tokens, const TokenOptions& options);
  /// Reads `count` tokens from number `first` on into `into`.
  [[nodiscard]] Result<void> read(std::int64_t first, std::int64_t count, std::uint16_t* into) const;
  void check_vocabulary(std::int64_t first, std::int64_t count, const std::uint16_t* tokens) const;

  std::filesystem::path path_;
  RandomAccessFile file_;
  std::int64_t tokens_;
  TokenOptions options_;
  std::string id_;
};

}  // namespace trainyard::data
