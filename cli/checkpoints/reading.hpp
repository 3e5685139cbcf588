#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>

#include "common/result.hpp"
#include "storage/store.hpp"

/// What commands share that read what runs have put into a store.
namespace trainyard::cli {

/// Results go to `out`, notes and errors to `err`.
struct Streams {
  std::ostream& out;
  std::ostream& err;
};

/// Says the error, and gives the exit code for it.
[[nodiscard]] int report(const Streams& streams, const Error& error);

/// A store whose calls end once `is_stopped` says so. ErrorKind::not_found for a folder of this machine that is not
/// there: a store would take it for an empty one.
[[nodiscard]] Result<std::unique_ptr<storage::Store>> open_for_reading(const std::string& uri,
                                                                       const storage::S3Options& s3,
                                                                       std::function<bool()> is_stopped);

/// Adds the options that say where S3 is.
void add_s3(CLI::App& command, storage::S3Options& s3);

}  // namespace trainyard::cli
