#include "checkpoint/interchange/weights.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>

#include "checkpoint/format/layout.hpp"
#include "checkpoint/format/manifest.hpp"
#include "checkpoint/interchange/entry_names.hpp"
#include "checkpoint/interchange/safetensors_file.hpp"
#include "checkpoint/run/search.hpp"
#include "checkpoint/run/state_reading.hpp"
#include "common/check.hpp"
#include "common/try.hpp"

namespace trainyard::checkpoint {
namespace {

constexpr std::size_t differences_max = 5;
// Neighbouring tensors up to this size are read together: one more request costs more than their bytes.
constexpr std::uint64_t weights_read_bytes_max = std::uint64_t{32} << 20;

struct Offered {
  std::string dtype;
  std::vector<std::int64_t> shape;
};

using OfferedByName = std::map<std::string, Offered>;

// A clause for each difference, the model's tensors first, in the model's order.
std::vector<std::string> differences_of(const OfferedByName& offered, std::span<const HostEntry> entries,
                                        const std::set<std::string>& aliases) {
  std::vector<std::string> differences;
  std::set<std::string_view> names;
  for (const HostEntry& entry : entries) {
    const EntryInfo& info = entry.info;
    names.insert(info.name);
    const auto found = offered.find(info.name);
    if (found == offered.end()) {
      differences.push_back(fmt::format("{} is not in it", info.name));
    } else if (found->second.dtype != info.dtype || found->second.shape != info.shape) {
      differences.push_back(fmt::format("{} is {} [{}] in it, and {} [{}] here", info.name, found->second.dtype,
                                        fmt::join(found->second.shape, ", "), info.dtype, fmt::join(info.shape, ", ")));
    }
  }
  for (const auto& [name, unused] : offered) {
    if (!names.contains(name) && !aliases.contains(name)) differences.push_back(fmt::format("{} is only in it", name));
  }
  return differences;
}

Result<void> check_fit(const std::string& uri, const OfferedByName& offered, std::span<const HostEntry> entries,
                       const std::set<std::string>& aliases) {
  const auto differences = differences_of(offered, entries, aliases);
  if (differences.empty()) return {};
  const std::size_t shown = std::min(differences.size(), differences_max);
  std::string text =
      fmt::format("{} does not fit this model: {}", uri, fmt::join(std::span{differences}.first(shown), "; "));
  if (shown < differences.size()) text += fmt::format("; and {} more", differences.size() - shown);
  return fail(ErrorKind::invalid, std::move(text));
}

OfferedByName offered_by(const Manifest& manifest) {
  OfferedByName offered;
  for (const EntryInfo& info : manifest.entries) {
    if (info.name.starts_with(model_prefix) && info.placement != Placement::per_rank)
      offered.emplace(info.name, Offered{.dtype = info.dtype, .shape = info.shape});
  }
  return offered;
}

Result<LoadedWeights> load_from_checkpoints(storage::Store& store, const WeightsPlace& place,
                                            std::span<const HostEntry> entries, const std::set<std::string>& aliases) {
  const std::string uri = store.uri_of(place.id ? folder_key(*place.id) : "");
  auto search = Search::begin(Origin{.store = store, .id = place.id});
  if (!search) return fail(uri, search.error());
  LoadedWeights loaded;
  for (;;) {
    const auto offer = TRY(search->next());
    loaded.skipped.insert(loaded.skipped.end(), offer.skipped.begin(), offer.skipped.end());
    if (offer.manifest_text.empty()) {
      if (loaded.skipped.empty())
        return fail(ErrorKind::not_found, fmt::format("{}: there is no complete checkpoint", uri));
      return fail(ErrorKind::corrupt,
                  fmt::format("{}: no checkpoint there is whole. The newest: {}", uri, loaded.skipped.front()));
    }
    const auto manifest = parse_manifest(offer.manifest_text);
    if (!manifest) return fail(uri, manifest.error());
    loaded.uri = store.uri_of(folder_key(manifest->id));
    TRY(check_fit(loaded.uri, offered_by(*manifest), entries, aliases));
    const auto read = read_state(store, *manifest, 0, entries);
    if (read) return loaded;
    if (!is_damage(read.error().kind)) return tl::unexpected(read.error());
    loaded.skipped.push_back(read.error().message);
  }
}

// The file's beginning: the header's length, and the header.
Result<std::string> read_file_header(storage::Store& store, const std::string& file) {
  std::string start(safetensors_length_bytes, '\0');
  TRY(store.get_range(file, 0, std::as_writable_bytes(std::span{start})));
  const auto length = TRY(read_safetensors_length(start));
  std::string header = start + std::string(length, '\0');
  const auto rest = std::as_writable_bytes(std::span{header}).subspan(safetensors_length_bytes);
  return store.get_range(file, safetensors_length_bytes, rest).map([&] { return std::move(header); });
}

// A tensor's offset in the file, and its place in the model.
struct WantedTensor {
  std::uint64_t offset = 0;
  std::span<std::byte> into;
};

// The entry's name for each tensor. A module may itself have a part named "model", so the names with model_prefix are
// taken if the model has any of them.
std::vector<std::optional<std::string>> names_that_fit(const std::vector<SafetensorsEntry>& tensors,
                                                       std::span<const HostEntry> entries) {
  std::set<std::string_view> wanted;
  for (const HostEntry& entry : entries) wanted.insert(entry.info.name);
  std::vector<std::string> names;
  std::vector<std::optional<std::string>> prefixed;
  for (const SafetensorsEntry& tensor : tensors) {
    names.push_back(tensor.name);
    prefixed.push_back(std::string{model_prefix} + tensor.name);
  }
  const bool is_found =
      std::any_of(prefixed.begin(), prefixed.end(), [&](const auto& name) { return wanted.contains(*name); });
  return is_found ? prefixed : entry_names(names);
}

// Reads in the file's order: neighbouring tensors by one request, a single one straight into place.
Result<void> read_tensors(storage::Store& store, const std::string& file, std::span<const WantedTensor> wanted) {
  std::vector<std::byte> buffer;
  while (!wanted.empty()) {
    const std::uint64_t begin = wanted.front().offset;
    std::uint64_t end = begin + wanted.front().into.size();
    std::size_t count = 1;
    while (count < wanted.size() && wanted[count].offset == end &&
           end + wanted[count].into.size() - begin <= weights_read_bytes_max)
      end += wanted[count++].into.size();
    buffer.resize(count == 1 ? 0 : end - begin);
    const std::span<std::byte> target = count == 1 ? wanted.front().into : std::span{buffer};
    if (!target.empty()) {
      TRY(store.get_range(file, begin, target));
    }
    for (const WantedTensor& one : wanted.first(count == 1 ? 0 : count))
      std::ranges::copy(target.subspan(one.offset - begin, one.into.size()), one.into.begin());
    wanted = wanted.subspan(count);
  }
  return {};
}

// Reads the file from `begin` to `end` in order, so that the digest is of the bytes that go into place.
Result<void> read_and_digest(storage::Store& store, const std::string& file, std::uint64_t begin, std::uint64_t end,
                             std::span<const WantedTensor> wanted, Sha256& digest) {
  std::vector<std::byte> buffer;
  for (std::uint64_t piece_end = begin; begin < end; begin = piece_end) {
    piece_end = std::min(end, begin + weights_read_bytes_max);
    buffer.resize(piece_end - begin);
    TRY(store.get_range(file, begin, buffer));
    digest.add(buffer);
    for (const WantedTensor& one : wanted) {
      const std::uint64_t from = std::max(one.offset, begin);
      const std::uint64_t to = std::min(one.offset + one.into.size(), piece_end);
      if (from < to)
        std::ranges::copy(std::span{buffer}.subspan(from - begin, to - from), &one.into[from - one.offset]);
    }
  }
  return {};
}

// Reads the tensors into place. If `place` has a digest, reads the whole file, whose digest must be equal.
Result<void> read_wanted(storage::Store& store, const WeightsPlace& place, std::string_view header,
                         const std::vector<SafetensorsEntry>& tensors, std::span<const WantedTensor> wanted) {
  if (place.sha256.empty()) return read_tensors(store, place.file, wanted);
  Sha256 digest;
  digest.add(std::as_bytes(std::span{header}));
  const std::uint64_t end = tensors.empty() ? header.size() : tensors.back().offset + tensors.back().bytes;
  TRY(read_and_digest(store, place.file, header.size(), end, wanted, digest));
  const std::string found = digest.finish();
  if (found == place.sha256) return {};
  return fail(ErrorKind::corrupt,
              fmt::format("its SHA-256 is {}, and {} was asked for: correct the digest, or name the file that has it",
                          found, place.sha256));
}

Result<LoadedWeights> load_from_file(storage::Store& store, const WeightsPlace& place,
                                     std::span<const HostEntry> entries, const std::set<std::string>& aliases) {
  const std::string uri = store.uri_of(place.file);
  const auto header = read_file_header(store, place.file);
  if (!header) return fail(uri, header.error());
  const auto tensors = parse_safetensors_header(std::string_view{*header}.substr(safetensors_length_bytes));
  if (!tensors) return fail(uri, tensors.error());
  const auto names = names_that_fit(*tensors, entries);
  OfferedByName offered;
  std::map<std::string_view, std::span<std::byte>> places;
  for (const HostEntry& entry : entries) places.emplace(entry.info.name, entry.bytes);
  std::vector<WantedTensor> wanted;
  for (std::size_t i = 0; i < tensors->size(); ++i) {
    if (!names[i]) continue;
    const SafetensorsEntry& tensor = (*tensors)[i];
    offered.emplace(*names[i], Offered{.dtype = std::string{tensor.dtype.name}, .shape = tensor.shape});
    if (const auto found = places.find(*names[i]); found != places.end())
      wanted.push_back({.offset = tensor.offset, .into = found->second});
  }
  return check_fit(uri, offered, entries, aliases)
      .and_then([&]() -> Result<void> {
        auto read = read_wanted(store, place, *header, *tensors, wanted);
        if (!read) return fail(uri, read.error());
        return read;
      })
      .map([&] { return LoadedWeights{.uri = uri, .skipped = {}}; });
}

}  // namespace

WeightsPlace parse_weights_place(std::string_view uri) {
  const std::size_t slash = uri.rfind('/');
  if (uri.ends_with(safetensors_ending) && slash != std::string_view::npos) {
    return {.prefix_uri = std::string{uri.substr(0, slash)},
            .file = std::string{uri.substr(slash + 1)},
            .id = std::nullopt};
  }
  Place place = parse_place(uri);
  return {.prefix_uri = std::move(place.prefix_uri), .file = {}, .id = place.id};
}

Result<LoadedWeights> load_weights(storage::Store& store, const WeightsPlace& place, std::span<const HostEntry> entries,
                                   const std::set<std::string>& aliases) {
  if (!place.file.empty()) return load_from_file(store, place, entries, aliases);
  if (place.sha256.empty()) return load_from_checkpoints(store, place, entries, aliases);
  return fail(ErrorKind::invalid,
              fmt::format("{} is not a {} file, and weightsSha256 is the digest of one: leave it out", store.uri_of(""),
                          safetensors_ending));
}

namespace {

// True when `uri` ends as PyTorch's files do. load_weights() looks for a folder of checkpoints there, and its error
// must then say how to import such a file.
bool is_of_python(std::string_view uri) {
  constexpr std::array endings{".pt", ".pth", ".bin"};
  return std::ranges::any_of(endings, [&](const char* ending) { return uri.ends_with(ending); });
}

}  // namespace

Result<LoadedWeights> load_weights(std::string_view uri, const storage::S3Options& s3,
                                   std::span<const HostEntry> entries, const std::set<std::string>& aliases,
                                   std::string sha256) {
  WeightsPlace place = parse_weights_place(uri);
  place.sha256 = std::move(sha256);
  auto loaded = storage::open_store(place.prefix_uri, s3).and_then([&](const std::unique_ptr<storage::Store>& store) {
    return load_weights(*store, place, entries, aliases);
  });
  if (loaded || !is_of_python(uri) || is_transient(loaded.error().kind)) return loaded;
  return fail(
      loaded.error().kind,
      fmt::format("{}. Weights are a {} file or checkpoints; `trainyard checkpoints import` makes a checkpoint of "
                  "a file that torch.save() wrote",
                  loaded.error().message, safetensors_ending));
}

struct Sha256::State {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{EVP_MD_CTX_new(), &EVP_MD_CTX_free};
};

Sha256::Sha256() : state_{std::make_unique<State>()} {
  check(EVP_DigestInit_ex(state_->context.get(), EVP_sha256(), nullptr) == 1, "OpenSSL knows SHA-256");
}

Sha256::~Sha256() = default;

void Sha256::add(std::span<const std::byte> piece) {
  check(EVP_DigestUpdate(state_->context.get(), piece.data(), piece.size()) == 1, "OpenSSL computes a digest");
}

std::string Sha256::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int digest_bytes = 0;
  check(EVP_DigestFinal_ex(state_->context.get(), digest.data(), &digest_bytes) == 1, "OpenSSL computes a digest");
  std::string text;
  for (unsigned int i = 0; i < digest_bytes; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

}  // namespace trainyard::checkpoint
