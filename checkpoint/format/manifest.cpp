#include "checkpoint/format/manifest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "checkpoint/format/sealed_json.hpp"
#include "common/try.hpp"

namespace trainyard::checkpoint {
namespace {

constexpr std::string_view format_name = "trainyard-checkpoint";
constexpr std::int64_t format_version_max = 3;

// The lowest version that has all that `manifest` needs, so that older programs read as much as they can.
std::int64_t format_version_of(const Manifest& manifest) {
  if (!manifest.data_nonce.empty()) return 3;
  const bool has_shards = std::any_of(manifest.entries.begin(), manifest.entries.end(),
                                      [](const EntryInfo& info) { return info.placement == Placement::sharded; });
  return has_shards ? 2 : 1;
}

constexpr std::array<std::pair<Placement, std::string_view>, 4> placements = {{{Placement::replicated, "replicated"},
                                                                               {Placement::rank0, "rank0"},
                                                                               {Placement::per_rank, "per_rank"},
                                                                               {Placement::sharded, "sharded"}}};

// Throws nlohmann's own exception, as nlohmann's accessors do.
Placement placement_of(const nlohmann::json& name) {
  for (const auto& [value, text] : placements) {
    if (name == text) return value;
  }
  throw nlohmann::json::other_error::create(501, fmt::format("no placement is named {}", name.dump()), &name);
}

nlohmann::json to_json(const EntryInfo& entry) {
  return {{"name", entry.name},
          {"placement", to_string(entry.placement)},
          {"dtype", entry.dtype},
          {"shape", entry.shape},
          {"bytes", entry.bytes}};
}

EntryInfo read_entry(const nlohmann::json& object) {
  return {.name = object.at("name").get<std::string>(),
          .placement = placement_of(object.at("placement")),
          .dtype = object.at("dtype").get<std::string>(),
          .shape = object.at("shape").get<std::vector<std::int64_t>>(),
          .bytes = object.at("bytes").get<std::uint64_t>()};
}

nlohmann::json to_json(const Chunk& chunk) {
  return {{"entry", chunk.entry},
          {"rows", {chunk.row_begin, chunk.row_end}},
          {"offset", chunk.offset},
          {"bytes", chunk.bytes},
          {"crc32c", chunk.crc32c}};
}

Chunk read_chunk(const nlohmann::json& object) {
  return {.entry = object.at("entry").get<std::string>(),
          .row_begin = object.at("rows").at(0).get<std::uint64_t>(),
          .row_end = object.at("rows").at(1).get<std::uint64_t>(),
          .offset = object.at("offset").get<std::uint64_t>(),
          .bytes = object.at("bytes").get<std::uint64_t>(),
          .crc32c = object.at("crc32c").get<std::uint32_t>()};
}

Receipt read_receipt(const nlohmann::json& object) {
  Receipt receipt{.rank = object.at("rank").get<std::int64_t>(),
                  .bytes = object.at("bytes").get<std::uint64_t>(),
                  .crc32c = object.at("crc32c").get<std::uint32_t>(),
                  .chunks = {}};
  for (const auto& chunk : object.at("chunks")) receipt.chunks.push_back(read_chunk(chunk));
  return receipt;
}

// Checks the nonce, since it becomes a part of keys. Throws as placement_of() does.
std::string read_data_nonce(const nlohmann::json& value) {
  auto nonce = value.get<std::string>();
  if (!is_save_nonce(nonce))
    throw nlohmann::json::other_error::create(501, fmt::format("{} is not the nonce of a save", value.dump()), &value);
  return nonce;
}

Manifest manifest_from(const nlohmann::json& object) {
  Manifest manifest;
  manifest.id = {.step = object.at("step").get<std::int64_t>(),
                 .generation = object.at("generation").get<std::int64_t>()};
  manifest.identity = {.job = object.at("job").get<std::string>(),
                       .job_uid = object.at("jobUid").get<std::string>(),
                       .attempt = object.at("attempt").get<std::int64_t>(),
                       .fingerprint = object.at("fingerprint").get<std::string>()};
  manifest.time = Time{std::chrono::milliseconds{object.at("timeMilliseconds").get<std::int64_t>()}};
  manifest.is_final = object.at("isComplete").get<bool>();
  manifest.nonce = object.at("nonce").get<std::string>();
  if (object.contains("dataNonce")) manifest.data_nonce = read_data_nonce(object["dataNonce"]);
  manifest.values = object.at("values");
  for (const auto& entry : object.at("entries")) manifest.entries.push_back(read_entry(entry));
  for (const auto& receipt : object.at("receipts")) manifest.receipts.push_back(read_receipt(receipt));
  return manifest;
}

}  // namespace

std::string_view to_string(Placement placement) {
  for (const auto& [value, name] : placements) {
    if (value == placement) return name;
  }
  return "";
}

nlohmann::json to_json(const Receipt& receipt) {
  nlohmann::json object = {{"rank", receipt.rank},
                           {"bytes", receipt.bytes},
                           {"crc32c", receipt.crc32c},
                           {"chunks", nlohmann::json::array()}};
  for (const Chunk& chunk : receipt.chunks) object["chunks"].push_back(to_json(chunk));
  return object;
}

Result<Receipt> parse_receipt(const nlohmann::json& object) {
  return read_fields("a receipt", [&] { return read_receipt(object); });
}

std::string to_text(const Manifest& manifest) {
  nlohmann::json object = {{"format", format_name},
                           {"version", format_version_of(manifest)},
                           {"step", manifest.id.step},
                           {"generation", manifest.id.generation},
                           {"job", manifest.identity.job},
                           {"jobUid", manifest.identity.job_uid},
                           {"attempt", manifest.identity.attempt},
                           {"fingerprint", manifest.identity.fingerprint},
                           {"timeMilliseconds", manifest.time.time_since_epoch().count()},
                           {"isComplete", manifest.is_final},
                           {"nonce", manifest.nonce},
                           {"values", manifest.values},
                           {"entries", nlohmann::json::array()},
                           {"receipts", nlohmann::json::array()}};
  if (!manifest.data_nonce.empty()) object["dataNonce"] = manifest.data_nonce;
  for (const EntryInfo& entry : manifest.entries) object["entries"].push_back(to_json(entry));
  for (const Receipt& receipt : manifest.receipts) object["receipts"].push_back(to_json(receipt));
  return seal(std::move(object));
}

Result<Manifest> parse_manifest(std::string_view text) {
  return unseal(text).and_then([](const nlohmann::json& object) -> Result<Manifest> {
    if (!object.contains("format") || object["format"] != format_name)
      return fail(ErrorKind::corrupt, "it is not a manifest");
    const auto version = TRY(read_fields("a manifest", [&] { return object.at("version").get<std::int64_t>(); }));
    if (version > format_version_max) {
      return fail(ErrorKind::invalid,
                  fmt::format("its format version is {}, and this program reads {} at most: use a newer Trainyard",
                              version, format_version_max));
    }
    return read_fields("a manifest", [&] { return manifest_from(object); });
  });
}

std::string data_key(const Manifest& manifest, std::int64_t rank) {
  return data_key(manifest.id, rank, manifest.data_nonce);
}

std::uint64_t data_bytes(const Manifest& manifest) {
  std::uint64_t bytes = 0;
  for (const Receipt& receipt : manifest.receipts) bytes += receipt.bytes;
  return bytes;
}

}  // namespace trainyard::checkpoint
