#include "checkpoint/format/layout.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/text.hpp"

namespace trainyard::checkpoint {
namespace {

// Removes a number without sign or leading zeros from the front of `text`, and returns it.
std::optional<std::int64_t> take_plain_number(std::string_view& text) {
  const bool has_leading_zero = text.size() > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9';
  return has_leading_zero ? std::nullopt : take_number<std::int64_t>(text);
}

bool take(std::string_view& text, std::string_view front) {
  if (!text.starts_with(front)) return false;
  text.remove_prefix(front.size());
  return true;
}

std::optional<CheckpointId> take_folder(std::string_view& key) {
  if (!take(key, checkpoints_prefix)) return std::nullopt;
  const auto step = take_plain_number(key);
  if (!step || !take(key, "/g-")) return std::nullopt;
  const auto generation = take_plain_number(key);
  if (!generation) return std::nullopt;
  return CheckpointId{.step = *step, .generation = *generation};
}

std::optional<std::int64_t> take_snapshot_folder(std::string_view& key) {
  if (!take(key, snapshots_prefix) || !take(key, "g-")) return std::nullopt;
  return take_plain_number(key);
}

constexpr std::string_view claim_suffix = ".json";
constexpr std::string_view end_suffix = ".end";
constexpr std::string_view manifest_name = "manifest.json";
constexpr std::string_view data_suffix = ".safetensors";
constexpr std::size_t claim_nonce_digits = 32;

std::optional<std::int64_t> parse_generation_key(std::string_view key, std::string_view suffix) {
  if (!take(key, claims_prefix)) return std::nullopt;
  const auto generation = take_plain_number(key);
  return key == suffix ? generation : std::nullopt;
}

// `name` is what follows the folder's key and a slash.
bool is_data_name(std::string_view name) {
  if (!take(name, "rank-") || !take_plain_number(name) || !name.ends_with(data_suffix)) return false;
  name.remove_suffix(data_suffix.size());
  return name.empty() || (take(name, "-") && is_save_nonce(name));
}

bool is_receipt_name(std::string_view name) {
  return take(name, "receipt-") && take_plain_number(name) && name == ".json";
}

}  // namespace

bool is_save_nonce(std::string_view text) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (text.size() <= claim_nonce_digits || !std::all_of(text.begin(), text.begin() + claim_nonce_digits, is_digit))
    return false;
  text.remove_prefix(claim_nonce_digits);
  return take(text, "-") && take_plain_number(text) && text.empty();
}

std::string claim_key(std::int64_t generation) {
  return fmt::format("{}{}{}", claims_prefix, generation, claim_suffix);
}

std::string end_key(std::int64_t generation) {
  return fmt::format("{}{}{}", claims_prefix, generation, end_suffix);
}

std::string alive_key(std::int64_t generation) {
  return fmt::format("{}{}.alive", claims_prefix, generation);
}

std::string saved_key(std::int64_t generation) {
  return fmt::format("{}{}.saved", claims_prefix, generation);
}

std::string folder_key(const CheckpointId& id) {
  return fmt::format("{}{}/g-{}", checkpoints_prefix, id.step, id.generation);
}

std::string data_key(const CheckpointId& id, std::int64_t rank, std::string_view nonce) {
  return fmt::format("{}/rank-{}{}{}{}", folder_key(id), rank, nonce.empty() ? "" : "-", nonce, data_suffix);
}

std::string manifest_key(const CheckpointId& id) {
  return fmt::format("{}/{}", folder_key(id), manifest_name);
}

std::string snapshot_key(const CheckpointId& id) {
  return fmt::format("{}g-{}/step-{}.json", snapshots_prefix, id.generation, id.step);
}

std::optional<std::int64_t> parse_claim_key(std::string_view key) {
  return parse_generation_key(key, claim_suffix);
}

std::optional<std::int64_t> parse_end_key(std::string_view key) {
  return parse_generation_key(key, end_suffix);
}

std::optional<CheckpointId> parse_checkpoint_key(std::string_view key) {
  const auto id = take_folder(key);
  return take(key, "/") && !key.empty() ? id : std::nullopt;
}

std::optional<CheckpointId> parse_written_key(std::string_view key) {
  const auto id = take_folder(key);
  const bool is_written = id && take(key, "/") && (key == manifest_name || is_data_name(key) || is_receipt_name(key));
  return is_written ? id : std::nullopt;
}

std::optional<CheckpointId> parse_folder_key(std::string_view key) {
  const auto id = take_folder(key);
  return key.empty() ? id : std::nullopt;
}

std::optional<CheckpointId> parse_snapshot_key(std::string_view key) {
  const auto generation = take_snapshot_folder(key);
  if (!generation || !take(key, "/step-")) return std::nullopt;
  const auto step = take_plain_number(key);
  if (!step || key != ".json") return std::nullopt;
  return CheckpointId{.step = *step, .generation = *generation};
}

std::optional<std::int64_t> parse_snapshot_folder(std::string_view key) {
  const auto generation = take_snapshot_folder(key);
  return key.empty() ? generation : std::nullopt;
}

std::optional<std::int64_t> generation_of_folder(std::string_view key) {
  const auto id = parse_folder_key(key);
  return id ? std::optional{id->generation} : parse_snapshot_folder(key);
}

Place parse_place(std::string_view uri) {
  std::string_view bare = uri;
  while (bare.ends_with('/')) bare.remove_suffix(1);
  const std::size_t last = bare.rfind('/');
  const std::size_t before =
      last == std::string_view::npos || last == 0 ? std::string_view::npos : bare.rfind('/', last - 1);
  if (before == std::string_view::npos) return {.prefix_uri = std::string{uri}, .id = std::nullopt};
  const auto id = parse_folder_key(bare.substr(before + 1));
  if (!id) return {.prefix_uri = std::string{uri}, .id = std::nullopt};
  return {.prefix_uri = std::string{bare.substr(0, before)}, .id = id};
}

}  // namespace trainyard::checkpoint
