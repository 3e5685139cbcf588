#include "storage/command_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <sstream>
#include <utility>

#include "common/child_program.hpp"
#include "common/text.hpp"
#include "common/try.hpp"
#include "storage/server_error.hpp"
#include "storage/store.hpp"

namespace trainyard::storage {
namespace {

constexpr int exit_not_found = 3;
constexpr std::chrono::milliseconds capabilities_deadline{30'000};

Result<std::string> judge(const Result<ProgramEnd>& end, const std::string& program, const std::string& operation) {
  TRY(end);
  if (end->exit_code == 0) return end->output;
  // The cause of the failure is unknown, so it may pass.
  const bool is_not_there = end->exit_code == exit_not_found && (operation == "get" || operation == "remove");
  const ErrorKind kind = is_not_there ? ErrorKind::not_found : ErrorKind::unavailable;
  const std::string words = sanitize_server_text(end->words, {});
  return fail(kind,
              fmt::format("{} ended with exit code {}{}{}", program, end->exit_code, words.empty() ? "" : ": ", words));
}

void pause(std::chrono::milliseconds time, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never_notified;
  std::unique_lock lock{mutex};
  never_notified.wait_for(lock, stop, time, [] { return false; });
}

}  // namespace

CommandStore::CommandStore(Uri uri, CommandTuning tuning) : uri_{std::move(uri)}, tuning_{tuning}, folder_{uri_.path} {}

std::string CommandStore::uri_of(std::string_view key) const {
  return key.empty() ? to_string(uri_) : fmt::format("{}/{}", to_string(uri_), key);
}

Result<std::string> CommandStore::run(const std::string& operation, const std::string& path, std::string_view key,
                                      const std::stop_token& stop) const {
  for (int failures = 1;; ++failures) {
    auto output =
        judge(run_program({uri_.program, operation, path, std::string{key}}, tuning_.deadline, {.stop = stop}),
              uri_.program, operation);
    if (output) return output;
    const Error& error = output.error();
    const std::string what = fmt::format("{} '{}'", operation, key);
    if (!is_transient(error.kind) || failures >= tuning_.tries_max) return fail(what, error);
    // No event says when the program would succeed, so wait.
    pause(backoff_delay(tuning_.backoff, failures, random_share()), stop);
    if (stop.stop_requested())
      return fail(ErrorKind::cancelled, fmt::format("{}: not tried again, as a stop was requested; the program's last "
                                                    "answer: {}",
                                                    what, error.message));
  }
}

// A program that does not know `capabilities` knows only `put`. One that a signal has ended may know more.
Result<bool> CommandStore::knows(const std::string& operation) {
  {
    const std::scoped_lock lock{mutex_};
    if (capabilities_) return capabilities_->contains(operation);
  }
  const auto end = run_program({uri_.program, "capabilities"}, capabilities_deadline);
  const auto judged = judge(end, uri_.program, "capabilities");
  constexpr int exit_by_signal = 128, signal_max = 64;
  const bool is_killed = end && end->exit_code > exit_by_signal && end->exit_code <= exit_by_signal + signal_max;
  if (!end || is_killed) return fail("asking for its capabilities", judged.error());
  std::set<std::string> words;
  std::istringstream text{end->exit_code == 0 ? end->output : std::string{}};
  for (std::string word; text >> word;) words.insert(word);
  const std::scoped_lock lock{mutex_};
  capabilities_ = std::move(words);
  return capabilities_->contains(operation);
}

Result<void> CommandStore::probe() {
  return folder_.probe().and_then([&]() -> Result<void> { return knows("").map([](bool) {}); });
}

Result<void> CommandStore::put(std::string_view key, Pieces pieces, const PutOptions& options) {
  if (options.if_absent)
    return fail(ErrorKind::invalid,
                fmt::format("{} has no conditional create: it has one writer at a time", uri_of("")));
  return folder_.put(key, pieces, options).and_then([&] {
    return run("put", folder_.path_of(key), key).map([](const std::string&) {});
  });
}

// Gets the object into the folder, whole or not at all.
Result<void> CommandStore::fetch(std::string_view key) {
  TRY(check_key(key));
  const auto temporary = TRY(folder_.temporary_path(key));
  auto fetched =
      run("get", temporary, key).and_then([&](const std::string&) { return folder_.take_in(temporary, key); });
  if (!fetched) ::unlink(temporary.c_str());
  return fetched;
}

Result<std::vector<std::byte>> CommandStore::get(std::string_view key) {
  const auto can_get = TRY(knows("get"));
  if (can_get) {
    TRY(fetch(key));
  }
  return folder_.get(key);
}

Result<void> CommandStore::get_range(std::string_view key, std::uint64_t offset, std::span<std::byte> into) {
  auto read = folder_.get_range(key, offset, into);
  if (read || read.error().kind != ErrorKind::not_found) return read;
  const auto can_get = TRY(knows("get"));
  if (!can_get) return read;
  return fetch(key).and_then([&] { return folder_.get_range(key, offset, into); });
}

Result<std::vector<ObjectInfo>> CommandStore::list(std::string_view prefix) {
  const auto can_list = TRY(knows("list"));
  if (!can_list) return folder_.list(prefix);
  auto objects = run("list", "-", prefix).and_then(&parse_listing);
  if (!objects) return fail(uri_of(prefix), objects.error());
  std::erase_if(*objects, [&](const ObjectInfo& object) { return !object.key.starts_with(prefix); });
  return objects;
}

Result<void> CommandStore::remove(std::string_view key, const std::stop_token& stop) {
  TRY(check_key(key));
  const auto can_remove = TRY(knows("remove"));
  if (can_remove) {
    const auto removed = run("remove", "-", key, stop);
    if (!removed && removed.error().kind != ErrorKind::not_found) return tl::unexpected(removed.error());
  }
  return folder_.remove(key, stop);
}

Result<void> CommandStore::remove_unfinished(const std::function<bool(std::string_view folder)>& is_abandoned) {
  return folder_.remove_unfinished(is_abandoned);
}

Result<std::vector<ObjectInfo>> parse_listing(std::string_view text) {
  std::vector<ObjectInfo> objects;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    std::string_view rest = line;
    const auto bytes = take_number<std::uint64_t>(rest);
    if (!bytes || rest.size() < 2 || rest.front() != ' ')
      return fail(ErrorKind::invalid,
                  fmt::format("'{}' is not a line of a list, which is BYTES KEY", keep_beginning(line, 100)));
    objects.push_back({.key = std::string{rest.substr(1)}, .bytes = *bytes});
  }
  std::ranges::sort(objects, {}, &ObjectInfo::key);
  return objects;
}

}  // namespace trainyard::storage
