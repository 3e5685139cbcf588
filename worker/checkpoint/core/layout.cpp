#include "worker/checkpoint/core/layout.hpp"

#include <fmt/format.h>

#include <charconv>

namespace trainyard::checkpoint {
namespace {

// Takes a number without sign or leading zeros off the front of `text`.
std::optional<std::int64_t> take_number(std::string_view& text) {
  std::int64_t number = 0;
  if (text.empty() || text.front() == '-' ||
      (text.front() == '0' && text.size() > 1 && text[1] >= '0' && text[1] <= '9')) {
    return std::nullopt;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool take(std::string_view& text, std::string_view front) {
  if (!text.starts_with(front)) return false;
  text.remove_prefix(front.size());
  return true;
}

std::optional<CheckpointId> take_folder(std::string_view& key) {
  if (!take(key, checkpoints_prefix)) return std::nullopt;
  const auto step = take_number(key);
  if (!step || !take(key, "/g-")) return std::nullopt;
  const auto generation = take_number(key);
  if (!generation) return std::nullopt;
  return CheckpointId{.step = *step, .generation = *generation};
}

std::optional<std::int64_t> take_snapshot_folder(std::string_view& key) {
  if (!take(key, snapshots_prefix) || !take(key, "g-")) return std::nullopt;
  return take_number(key);
}

constexpr std::string_view claim_suffix = ".json";
constexpr std::string_view end_suffix = ".end";

std::optional<std::int64_t> parse_generation_key(std::string_view key, std::string_view suffix) {
  if (!take(key, claims_prefix)) return std::nullopt;
  const auto generation = take_number(key);
  return key == suffix ? generation : std::nullopt;
}

}  // namespace

std::string claim_key(std::int64_t generation) {
  return fmt::format("{}{}{}", claims_prefix, generation, claim_suffix);
}

std::string end_key(std::int64_t generation) {
  return fmt::format("{}{}{}", claims_prefix, generation, end_suffix);
}

std::string folder_key(const CheckpointId& id) {
  return fmt::format("{}{}/g-{}", checkpoints_prefix, id.step, id.generation);
}

std::string data_key(const CheckpointId& id, std::int64_t rank) {
  return fmt::format("{}/rank-{}.safetensors", folder_key(id), rank);
}

std::string receipt_key(const CheckpointId& id, std::int64_t rank) {
  return fmt::format("{}/receipt-{}.json", folder_key(id), rank);
}

std::string manifest_key(const CheckpointId& id) {
  return fmt::format("{}/manifest.json", folder_key(id));
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

std::optional<CheckpointId> parse_folder_key(std::string_view key) {
  const auto id = take_folder(key);
  return key.empty() ? id : std::nullopt;
}

std::optional<CheckpointId> parse_snapshot_key(std::string_view key) {
  const auto generation = take_snapshot_folder(key);
  if (!generation || !take(key, "/step-")) return std::nullopt;
  const auto step = take_number(key);
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

}  // namespace trainyard::checkpoint
