#pragma once

#include <cstdint>
#include <string>

#include "api/training_spec.hpp"
#include "worker/logs/record.hpp"

/// The bytes of each kind of log file. A file consists of parts, because an object store cannot append to an object:
/// the last part is replaced by a longer one, and a full part is never touched again. Pure.
namespace trainyard::logs {

/// Names one part. Names of one kind, sorted as texts, are in the order in which their parts were written, as far as
/// the runs' clocks agree.
struct PartName {
  Time run_began;  ///< Keeps runs of different jobs in one folder apart: their attempts begin at 1 each.
  std::int64_t attempt = 1;
  std::int64_t part = 1;  ///< From 1 in each attempt.
};

/// The part's key in the folder of log files.
[[nodiscard]] std::string key_of(api::LogFile file, const PartName& name);

/// The bytes with which each part begins.
[[nodiscard]] std::string header_of(api::LogFile file, Time time);
[[nodiscard]] std::string encode(api::LogFile file, const Start& start);
/// Images are written to `tensorboard` only. An image that cannot be encoded is left out, and a warning names it.
[[nodiscard]] std::string encode(api::LogFile file, const Record& record);

}  // namespace trainyard::logs
