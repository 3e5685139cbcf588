#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "cli/checkpoints/reading.hpp"
#include "cli/text/output.hpp"
#include "storage/store.hpp"

/// The commands of `trainyard checkpoints`. Each prints its results on `out`, its notes and errors on `err`, and
/// returns the exit code: 0 done, 1 failed or damage found, 2 wrong usage.
namespace trainyard::cli {

struct CheckpointsOptions {
  std::string uri;  ///< A prefix, or one checkpoint's URI. import: a prefix.
  storage::S3Options s3;
  std::optional<std::int64_t> step;
  bool is_all = false;
  OutputFormat format = OutputFormat::text;  ///< ls, show, verify
  bool is_forced = false;
  bool is_confirmed = false;  ///< --yes
  std::string target;         ///< get: the folder. export: the file.
  std::string source;         ///< import: the file.
  std::string only;
  std::function<bool()> is_stopped = [] { return false; };  ///< Called between pieces of data.
};

/// Asks the user `question`. Empty: there is no terminal to ask on.
using Ask = std::function<std::optional<bool>(const std::string& question)>;

[[nodiscard]] int list_checkpoints(const CheckpointsOptions& options, const Streams& streams);
[[nodiscard]] int show_checkpoint(const CheckpointsOptions& options, const Streams& streams);
[[nodiscard]] int verify_checkpoints(const CheckpointsOptions& options, const Streams& streams);
[[nodiscard]] int get_checkpoint(const CheckpointsOptions& options, const Streams& streams);
[[nodiscard]] int export_checkpoint(const CheckpointsOptions& options, const Streams& streams);
[[nodiscard]] int import_checkpoint(const CheckpointsOptions& options, const Streams& streams);
[[nodiscard]] int remove_checkpoint(const CheckpointsOptions& options, const Streams& streams, const Ask& ask);

}  // namespace trainyard::cli
