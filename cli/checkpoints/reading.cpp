#include "cli/checkpoints/reading.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <ostream>
#include <utility>

#include "cli/checkpoints/stoppable_store.hpp"
#include "cli/text/table.hpp"
#include "common/exit_codes.hpp"
#include "common/try.hpp"
#include "storage/uri.hpp"

namespace trainyard::cli {
namespace {

Result<void> check_folder(const std::string& uri) {
  const auto parsed = storage::parse_uri(uri);
  if (!parsed || parsed->scheme != storage::Scheme::file) return {};
  std::error_code error;
  if (std::filesystem::exists(parsed->path, error) || error) return {};
  return fail(ErrorKind::not_found, fmt::format("there is no folder {}", parsed->path));
}

}  // namespace

int report(const Streams& streams, const Error& error) {
  streams.err << "error: " << printable(error.message) << '\n';
  return error.kind == ErrorKind::cancelled ? exit_stopped : exit_failure;
}

Result<std::unique_ptr<storage::Store>> open_for_reading(const std::string& uri, const storage::S3Options& s3,
                                                         std::function<bool()> is_stopped) {
  auto store = TRY(storage::open_store(uri, s3));
  TRY(check_folder(uri));
  return std::make_unique<StoppableStore>(std::move(store), std::move(is_stopped));
}

void add_s3(CLI::App& command, storage::S3Options& s3) {
  command.add_option("--endpoint", s3.endpoint,
                     "Of S3: https://host:port [$AWS_ENDPOINT_URL_S3, $AWS_ENDPOINT_URL, AWS's own]");
  command.add_option("--region", s3.region, "Of S3 [$AWS_REGION, $AWS_DEFAULT_REGION, us-east-1]");
  command.add_flag(
      "--path-style,!--virtual-host", [&s3](std::int64_t count) { s3.path_style = count > 0; },
      "Put S3's bucket in the URL's path, or in the host name [in the path, except at AWS's own endpoints]");
}

}  // namespace trainyard::cli
