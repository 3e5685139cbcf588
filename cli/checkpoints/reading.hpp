#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>

#include "common/result.hpp"
#include "storage/store.hpp"

/// Helpers of the commands that read a store of checkpoints or snapshots.
namespace trainyard::cli {

/// Results go to `out`, notes and errors to `err`.
struct Streams {
  std::ostream& out;
  std::ostream& err;
};

/// Prints the error. Returns the exit code for it.
[[nodiscard]] int report(const Streams& streams, const Error& error);

/// A store whose calls fail once `is_stopped` is true. ErrorKind::not_found for a folder of this machine that does not
/// exist: a store would treat it as an empty one.
[[nodiscard]] Result<std::unique_ptr<storage::Store>> open_for_reading(const std::string& uri,
                                                                       const storage::S3Options& s3,
                                                                       std::function<bool()> is_stopped);

/// Makes `option` take the number of a step.
CLI::Option* expect_step(CLI::Option* option);

/// Adds the options that say where S3 is.
void add_s3(CLI::App& command, storage::S3Options& s3);

}  // namespace trainyard::cli
