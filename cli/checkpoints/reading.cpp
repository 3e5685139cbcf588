#include "cli/checkpoints/reading.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <ostream>
#include <utility>

#include "cli/text/output.hpp"
#include "common/exit_codes.hpp"
#include "common/try.hpp"
#include "storage/uri.hpp"

namespace trainyard::cli {
namespace {

// Global, since a signal handler gets no arguments of ours.
std::string cut_file_message;
struct sigaction sigbus_before;

void end_at_cut_file(int /*signal*/) {
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, cut_file_message.data(), cut_file_message.size());
  ::_exit(exit_failure);
}

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

CLI::Option* expect_step(CLI::Option* option) {
  constexpr std::size_t digits_max = 18;  // Every such number fits into an std::int64_t.
  const auto check_step = [](const std::string& text) -> std::string {
    const bool is_number = std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
    if (is_number && !text.empty() && text.size() <= digits_max) return "";
    return fmt::format("'{}' is no step: write a whole number, such as 600", text);
  };
  return option->check(CLI::Validator{check_step, "", ""})->type_name("N");
}

void add_s3(CLI::App& command, storage::S3Options& s3) {
  command.add_option("--endpoint", s3.endpoint,
                     "S3 endpoint, such as https://host:port [$AWS_ENDPOINT_URL_S3, $AWS_ENDPOINT_URL, AWS's own]");
  command.add_option("--region", s3.region, "S3 region [$AWS_REGION, $AWS_DEFAULT_REGION, us-east-1]");
  command.add_flag(
      "--path-style,!--virtual-host", [&s3](std::int64_t count) { s3.path_style = count > 0; },
      "Put the S3 bucket into the URL's path, or into the host name [the path, except at AWS's own endpoints]");
}

Result<void> StoppableStore::check_not_stopped() const {
  if (is_stopped_()) return fail(ErrorKind::cancelled, "stopped by a signal");
  return {};
}

Result<void> StoppableStore::probe() {
  return check_not_stopped().and_then([&] { return store_->probe(); });
}

Result<void> StoppableStore::put(std::string_view key, storage::Pieces pieces, const storage::PutOptions& options) {
  return check_not_stopped().and_then([&] { return store_->put(key, pieces, options); });
}

Result<std::vector<std::byte>> StoppableStore::get(std::string_view key) {
  return check_not_stopped().and_then([&] { return store_->get(key); });
}

Result<void> StoppableStore::get_range(std::string_view key, std::uint64_t offset, std::span<std::byte> into) {
  return check_not_stopped().and_then([&] { return store_->get_range(key, offset, into); });
}

Result<std::vector<storage::ObjectInfo>> StoppableStore::list(std::string_view prefix) {
  return check_not_stopped().and_then([&] { return store_->list(prefix); });
}

Result<void> StoppableStore::remove(std::string_view key, const std::stop_token& stop) {
  return check_not_stopped().and_then([&] { return store_->remove(key, stop); });
}

Result<void> StoppableStore::remove_unfinished(const std::function<bool(std::string_view folder)>& is_abandoned) {
  return check_not_stopped().and_then([&] { return store_->remove_unfinished(is_abandoned); });
}

CutFileGuard::CutFileGuard(const std::string& path) {
  cut_file_message = fmt::format(
      "error: {} was truncated while it was read, or its disk failed; nothing was imported\n", printable(path));
  struct sigaction action {};
  action.sa_handler = end_at_cut_file;
  ::sigaction(SIGBUS, &action, &sigbus_before);
}

CutFileGuard::~CutFileGuard() {
  ::sigaction(SIGBUS, &sigbus_before, nullptr);
}

}  // namespace trainyard::cli
