#include "storage/arrow/arrow_store.hpp"

#include <arrow/io/interfaces.h>
#include <arrow/util/io_util.h>
#include <arrow/util/key_value_metadata.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <thread>
#include <utility>

#include "common/clock.hpp"
#include "storage/arrow/arrow_error.hpp"
#include "storage/key.hpp"
#include "storage/random_share.hpp"

namespace trainyard::storage {
namespace {

// Azure takes 50,000 parts at most and Google parts of any size; a larger one is more to send again.
constexpr std::uint64_t part_bytes = std::uint64_t{16} << 20;

constexpr const char* mark_name = "Content-Type";
constexpr const char* mark_value = "application/vnd.trainyard";

std::shared_ptr<const arrow::KeyValueMetadata> marks_of(Scheme scheme) {
  if (scheme != Scheme::az) return nullptr;
  return std::make_shared<const arrow::KeyValueMetadata>(std::vector<std::string>{mark_name},
                                                         std::vector<std::string>{mark_value});
}

Instant steady_now() {
  return std::chrono::steady_clock::now();
}

HttpTuning knocking(const ArrowTuning& tuning, std::string ca_bundle) {
  return {.connect_timeout = tuning.connect_timeout,
          .patience = std::chrono::milliseconds{0},
          .first_patience = std::chrono::milliseconds{0},
          .ca_bundle = std::move(ca_bundle)};
}

}  // namespace

ArrowStore::ArrowStore(Uri uri, ArrowCloud cloud, ArrowTuning tuning)
    : uri_(std::move(uri)), cloud_(std::move(cloud)), tuning_(tuning), http_(knocking(tuning, cloud_.ca_bundle)) {}

std::string ArrowStore::uri_of(std::string_view key) const {
  return fmt::format("{}/{}", to_string(uri_), key);
}

std::string ArrowStore::path_of(std::string_view key) const {
  std::string path = uri_.bucket;
  for (const std::string_view part : {std::string_view{uri_.path}, key}) {
    if (!part.empty()) path += fmt::format("/{}", part);
  }
  return path;
}

tl::unexpected<Error> ArrowStore::failed(const std::string& doing, const arrow::Status& status) const {
  const int number = arrow::internal::ErrnoFromStatus(status);
  return tl::unexpected(
      arrow_error(doing, status.message(), number == 0 ? std::nullopt : std::optional{number}, cloud_.secret));
}

// Arrow's clients wait minutes for a server that is not there, and cannot be told otherwise.
Result<void> ArrowStore::knock(const std::string& doing) {
  if (is_reachable_) return {};
  const HttpCall call{.doing = doing,
                      .make = [&]() -> Result<HttpRequest> {
                        return HttpRequest{.method = "GET", .url = cloud_.url, .deadline = tuning_.connect_timeout};
                      },
                      .accept = [](const HttpReply&) -> Result<void> { return {}; },
                      .patience = std::nullopt};
  return http_.perform({&call, 1}, 1).map([&] { is_reachable_ = true; });
}

Result<void> ArrowStore::attempt(const std::string& doing, const Act& act) {
  const Instant started = steady_now();
  for (std::int64_t failures = 1;; ++failures) {
    Result<void> done = knock(doing);
    if (done) {
      try {
        done = act();
      } catch (const std::exception& exception) {  // Arrow lets some of those of Azure's client pass.
        done = Result<void>{tl::unexpected(arrow_error(doing, exception.what(), std::nullopt, cloud_.secret))};
      }
    }
    if (done) {
      has_succeeded_ = true;
      return done;
    }
    if (!is_transient(done.error().kind)) return done;
    is_reachable_ = false;
    const auto delay = backoff_delay(tuning_.backoff, failures, random_share());
    if (steady_now() + delay > started + (has_succeeded_ ? tuning_.patience : tuning_.first_patience)) return done;
    std::this_thread::sleep_for(delay);  // Nothing tells when it would succeed.
  }
}

// Azure does not say which of the two is missing.
Result<void> ArrowStore::check_bucket(const std::string& doing) {
  if (uri_.scheme != Scheme::az || has_bucket_) return {};
  const auto bucket = cloud_.files->GetFileInfo(uri_.bucket);
  if (!bucket.ok()) return failed(doing, bucket.status());
  if (bucket->type() == arrow::fs::FileType::NotFound) {
    return fail(
        ErrorKind::not_found,
        fmt::format("{}: there is no container {}. Create it, or correct its name in the URI", doing, uri_.bucket));
  }
  has_bucket_ = true;
  return {};
}

Result<bool> ArrowStore::is_whole(const std::string& doing, const std::string& path) {
  if (uri_.scheme != Scheme::az) return true;
  const auto file = cloud_.files->OpenInputStream(path);
  if (!file.ok()) {
    auto error = failed(doing, file.status());
    if (error.value().kind == ErrorKind::not_found) return false;
    return error;
  }
  const auto marks = (*file)->ReadMetadata();
  if (!marks.ok()) return failed(doing, marks.status());
  return *marks != nullptr && (*marks)->Contains(mark_name) && (*marks)->Get(mark_name).ValueOr("") == mark_value;
}

Result<arrow::fs::FileInfoVector> ArrowStore::look(const std::string& doing, const std::string& folder,
                                                   bool is_recursive) {
  arrow::fs::FileSelector selector;
  selector.base_dir = folder;
  selector.recursive = is_recursive;
  auto files = cloud_.files->GetFileInfo(selector);
  if (files.ok()) return *std::move(files);
  const int number = arrow::internal::ErrnoFromStatus(files.status());
  auto error = failed(doing, files.status());
  const bool is_googles = files.status().message().find("google::cloud") != std::string::npos;  // It has no bucket.
  const bool is_absent =
      number == ENOENT || number == ENOTDIR || files.status().message().starts_with("No such file or directory");
  if (is_googles || !is_absent) return error;
  return check_bucket(doing).map([] { return arrow::fs::FileInfoVector{}; });
}

Result<void> ArrowStore::probe() {
  const std::string doing = fmt::format("look into {}", uri_of(""));
  return attempt(doing, [&] { return look(doing, path_of(""), false).map([](const auto&) {}); });
}

Result<void> ArrowStore::put(std::string_view key, Pieces pieces, const PutOptions& options) {
  if (auto good = check_key(key); !good) return good;
  if (options.if_absent) {
    return fail(ErrorKind::invalid,
                fmt::format("{} has no conditional create: it has one writer at a time", uri_of("")));
  }
  const std::string doing = fmt::format("put {}", uri_of(key));
  return attempt(doing, [&] { return write(doing, path_of(key), pieces); });
}

Result<void> ArrowStore::write(const std::string& doing, const std::string& path, Pieces pieces) {
  const auto opened = cloud_.files->OpenOutputStream(path, marks_of(uri_.scheme));
  if (!opened.ok()) return failed(doing, opened.status());
  arrow::io::OutputStream& stream = **opened;
  // Azure's would put together what it has when it is destroyed; Google's does not once it has failed, and has no
  // other way to give up. What failed first is what is told.
  const auto give_up = [&](const arrow::Status& status) {
    if (uri_.scheme == Scheme::az) (void)stream.Abort();
    return failed(doing, status);
  };
  try {
    for (const auto& piece : pieces) {
      for (std::uint64_t begin = 0; begin < piece.size(); begin += part_bytes) {
        const auto part = piece.subspan(begin, std::min<std::uint64_t>(part_bytes, piece.size() - begin));
        const arrow::Status written = stream.Write(part.data(), static_cast<std::int64_t>(part.size()));
        if (!written.ok()) return give_up(written);
      }
    }
    const arrow::Status closed = stream.Close();
    if (!closed.ok()) return give_up(closed);
  } catch (...) {
    if (uri_.scheme == Scheme::az) (void)stream.Abort();
    throw;
  }
  return {};
}

Result<std::vector<std::byte>> ArrowStore::get(std::string_view key) {
  if (auto good = check_key(key); !good) return tl::unexpected(good.error());
  const std::string doing = fmt::format("get {}", uri_of(key));
  const std::string path = path_of(key);
  std::vector<std::byte> content;
  const auto done = attempt(doing, [&]() -> Result<void> {
    content.clear();
    const auto file = cloud_.files->OpenInputFile(path);
    const auto size = file.ok() ? (*file)->GetSize() : arrow::Result<std::int64_t>{file.status()};
    if (!size.ok()) {
      auto error = failed(doing, size.status());
      if (error.value().kind != ErrorKind::not_found) return error;
      if (auto there = check_bucket(doing); !there) return there;
      return error;
    }
    if (*size == 0) {
      return is_whole(doing, path).and_then([&](bool whole) -> Result<void> {
        if (whole) return {};
        return fail(ErrorKind::not_found, fmt::format("{}: it was never written to its end", doing));
      });
    }
    content.resize(static_cast<std::size_t>(*size));
    const auto got = (*file)->ReadAt(0, *size, content.data());
    if (!got.ok()) return failed(doing, got.status());
    if (*got == *size) return {};
    return fail(ErrorKind::unavailable, fmt::format("{}: it ended after {} of {} bytes", doing, *got, *size));
  });
  if (!done) return tl::unexpected(done.error());
  return content;
}

Result<void> ArrowStore::get_range(std::string_view key, std::uint64_t offset, std::span<std::byte> into) {
  if (auto good = check_key(key); !good) return good;
  if (into.empty()) return {};
  const std::string doing = fmt::format("get {}", uri_of(key));
  const std::string path = path_of(key);
  return attempt(doing, [&]() -> Result<void> {
    const auto file = cloud_.files->OpenInputFile(path);
    if (!file.ok()) return failed(doing, file.status());
    const auto size = (*file)->GetSize();
    if (!size.ok()) return failed(doing, size.status());
    const auto bytes = static_cast<std::uint64_t>(*size);
    if (bytes < offset || bytes - offset < into.size()) {
      return fail(ErrorKind::corrupt, fmt::format("{}: it holds {} bytes, and those from {} to {} were asked for",
                                                  doing, bytes, offset, offset + into.size()));
    }
    const auto got =
        (*file)->ReadAt(static_cast<std::int64_t>(offset), static_cast<std::int64_t>(into.size()), into.data());
    if (!got.ok()) return failed(doing, got.status());
    if (static_cast<std::uint64_t>(*got) == into.size()) return {};
    return fail(ErrorKind::unavailable, fmt::format("{}: it ended after {} of {} bytes", doing, *got, into.size()));
  });
}

// Of every file, whole or not, with the path below the store's prefix as its key. Arrow lists folders only.
Result<std::vector<ObjectInfo>> ArrowStore::files_below(const std::string& doing, std::string_view prefix) {
  const std::size_t slash = prefix.rfind('/');
  const std::string folder = path_of(slash == std::string_view::npos ? "" : prefix.substr(0, slash));
  const std::size_t root_bytes = path_of("").size() + 1;
  std::vector<ObjectInfo> objects;
  const auto key_of = [&](const arrow::fs::FileInfo& file) {
    return file.path().size() > root_bytes ? file.path().substr(root_bytes) : std::string{};
  };
  const auto add = [&](const arrow::fs::FileInfoVector& files) {
    for (const arrow::fs::FileInfo& file : files) {
      ObjectInfo object{.key = key_of(file), .bytes = static_cast<std::uint64_t>(file.size())};
      if (file.IsFile() && !object.key.empty() && object.key.starts_with(prefix)) objects.push_back(std::move(object));
    }
  };
  // Azure's file system asks for each folder by itself: here only for those that lead to the prefix. Google's asks for
  // all names below a folder at once, and by itself shows no folders.
  const bool is_all = uri_.scheme == Scheme::gs || prefix.empty() || prefix.ends_with('/');
  const auto files = look(doing, folder, is_all);
  if (!files) return tl::unexpected(files.error());
  add(*files);
  for (const arrow::fs::FileInfo& file : *files) {
    if (is_all || !file.IsDirectory() || !key_of(file).starts_with(prefix)) continue;
    const auto below = look(doing, file.path(), true);
    if (!below) return tl::unexpected(below.error());
    add(*below);
  }
  std::ranges::sort(objects, {}, &ObjectInfo::key);
  return objects;
}

Result<std::vector<ObjectInfo>> ArrowStore::list(std::string_view prefix) {
  const std::string doing = fmt::format("list {}", uri_of(prefix));
  std::vector<ObjectInfo> objects;
  const auto done = attempt(doing, [&]() -> Result<void> {
    objects.clear();
    auto files = files_below(doing, prefix);
    if (!files) return tl::unexpected(files.error());
    for (ObjectInfo& file : *files) {
      const auto whole = file.bytes > 0 ? Result<bool>{true} : is_whole(doing, path_of(file.key));
      if (!whole) return tl::unexpected(whole.error());
      if (*whole) objects.push_back(std::move(file));
    }
    return {};
  });
  if (!done) return tl::unexpected(done.error());
  return objects;
}

Result<void> ArrowStore::remove(std::string_view key) {
  if (auto good = check_key(key); !good) return good;
  const std::string doing = fmt::format("remove {}", uri_of(key));
  return attempt(doing, [&]() -> Result<void> {
    const arrow::Status removed = cloud_.files->DeleteFile(path_of(key));
    if (removed.ok()) return {};
    auto error = failed(doing, removed);
    if (error.value().kind != ErrorKind::not_found) return error;
    return check_bucket(doing);
  });
}

Result<void> ArrowStore::remove_unfinished(const std::function<bool(std::string_view folder)>& is_abandoned) {
  if (uri_.scheme != Scheme::az) return {};
  const std::string doing = fmt::format("look for unfinished objects under {}", uri_of(""));
  return attempt(doing, [&]() -> Result<void> {
    const auto files = files_below(doing, "");
    if (!files) return tl::unexpected(files.error());
    for (const ObjectInfo& file : *files) {
      const std::size_t slash = file.key.rfind('/');
      if (file.bytes > 0 || slash == std::string::npos || !is_abandoned(file.key.substr(0, slash))) continue;
      const auto whole = is_whole(doing, path_of(file.key));
      if (!whole) return tl::unexpected(whole.error());
      if (*whole) continue;
      const arrow::Status removed = cloud_.files->DeleteFile(path_of(file.key));
      if (!removed.ok() && arrow::internal::ErrnoFromStatus(removed) != ENOENT) return failed(doing, removed);
    }
    return {};
  });
}

}  // namespace trainyard::storage
