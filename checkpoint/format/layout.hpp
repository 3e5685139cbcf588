#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// Where things are under a run's prefix:
///   generations/G.json                       the claim of generation G: who writes, and what it resumed from
///   generations/G.end                        that its run has ended: another job may go on. Empty
///   generations/G.alive                      when its run was last alive, of a run by hand
///   generations/G.saved                      the newest checkpoint that its run has saved
///   step-N/g-G/rank-R-NONCE.safetensors      rank R's share of the state after N optimizer steps, as one save wrote it
///   step-N/g-G/manifest.json                 written last: with it the checkpoint is complete
///   snapshots/g-G/step-N.json                what rank 0 showed until step N; no part of any checkpoint
/// Programs before format version 3 wrote rank-R.safetensors without a nonce, and a receipt-R.json beside it.
namespace trainyard::checkpoint {

/// One checkpoint: the state after `step` optimizer steps, as generation `generation` wrote it.
struct CheckpointId {
  std::int64_t step = 0;
  std::int64_t generation = 0;
  auto operator<=>(const CheckpointId&) const = default;
};

inline constexpr std::string_view claims_prefix = "generations/";
inline constexpr std::string_view checkpoints_prefix = "step-";
inline constexpr std::string_view snapshots_prefix = "snapshots/";

[[nodiscard]] std::string claim_key(std::int64_t generation);
[[nodiscard]] std::string end_key(std::int64_t generation);
[[nodiscard]] std::string alive_key(std::int64_t generation);
[[nodiscard]] std::string saved_key(std::int64_t generation);
[[nodiscard]] std::string folder_key(const CheckpointId& id);
/// `nonce`: that of the save which writes the file, so that no late write of another run or of an earlier try can
/// replace it. Empty for files written before format version 3.
[[nodiscard]] std::string data_key(const CheckpointId& id, std::int64_t rank, std::string_view nonce = {});
[[nodiscard]] std::string manifest_key(const CheckpointId& id);
/// `id`: of the snapshot.
[[nodiscard]] std::string snapshot_key(const CheckpointId& id);

/// True for the nonce of a save: 32 hexadecimal digits of the run's claim, a '-' and a number.
[[nodiscard]] bool is_save_nonce(std::string_view text);

/// The generation whose claim `key` is; nothing for other keys.
[[nodiscard]] std::optional<std::int64_t> parse_claim_key(std::string_view key);
/// The generation whose end `key` says; nothing for other keys.
[[nodiscard]] std::optional<std::int64_t> parse_end_key(std::string_view key);
/// The checkpoint that the object `key` belongs to; nothing for other keys.
[[nodiscard]] std::optional<CheckpointId> parse_checkpoint_key(std::string_view key);
/// The checkpoint of which a worker wrote the object `key`: its manifest, a data file or a receipt; nothing for other
/// keys, such as those of files that people put beside them.
[[nodiscard]] std::optional<CheckpointId> parse_written_key(std::string_view key);
/// The checkpoint whose folder_key() `key` is; nothing for other keys.
[[nodiscard]] std::optional<CheckpointId> parse_folder_key(std::string_view key);
/// Which snapshot `key` is; nothing for other keys.
[[nodiscard]] std::optional<CheckpointId> parse_snapshot_key(std::string_view key);
/// The generation whose snapshots' folder `key` is (without a slash at the end); nothing for other keys.
[[nodiscard]] std::optional<std::int64_t> parse_snapshot_folder(std::string_view key);
/// The generation that writes into the folder `key`, of a checkpoint or of snapshots; nothing for other keys.
[[nodiscard]] std::optional<std::int64_t> generation_of_folder(std::string_view key);

}  // namespace trainyard::checkpoint
