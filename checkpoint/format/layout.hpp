#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// The objects under a training's prefix:
///   generations/G.json                       the claim of generation G: which run writes, and what it resumed from
///   generations/G.end                        the end of generation G's run: another job may claim. Empty
///   generations/G.alive                      the sign of life of generation G's run, if it is a run by hand
///   generations/G.saved                      the record of the newest checkpoint of generation G's run
///   step-N/g-G/rank-R-NONCE.safetensors      rank R's share of the state after N optimizer steps, as one save wrote
///                                            it. Rank 2 of four writes the third quarter of the bytes that are equal
///                                            on all ranks (the replicated ones), such as parameters, and the bytes
///                                            that only rank 2 has: share_of() in data_file.hpp
///   step-N/g-G/manifest.json                 the manifest, written last: it makes the checkpoint complete
///   snapshots/g-G/step-N.json                a snapshot: metrics and images up to step N; no part of any checkpoint
///   logs/                                    log files and traces (worker/logs/file_format.hpp); no part of any
///                                            checkpoint
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
/// `nonce` is the nonce of the save that writes the file: it keeps a late write of another run, or of an earlier try,
/// from replacing the file. It is empty for files written before format version 3.
[[nodiscard]] std::string data_key(const CheckpointId& id, std::int64_t rank, std::string_view nonce = {});
[[nodiscard]] std::string manifest_key(const CheckpointId& id);
[[nodiscard]] std::string snapshot_key(const CheckpointId& id);

/// True for the nonce of a save: the 32 hexadecimal digits of the run's claim, a '-' and a number.
[[nodiscard]] bool is_save_nonce(std::string_view text);

/// The generation whose claim has the key `key`; nothing for other keys.
[[nodiscard]] std::optional<std::int64_t> parse_claim_key(std::string_view key);
/// The generation whose end has the key `key`; nothing for other keys.
[[nodiscard]] std::optional<std::int64_t> parse_end_key(std::string_view key);
/// The checkpoint in whose folder the object `key` lies; nothing for other keys.
[[nodiscard]] std::optional<CheckpointId> parse_checkpoint_key(std::string_view key);
/// The checkpoint for which a worker wrote the object `key` (manifest, data file or receipt); nothing for other keys,
/// such as those of files that people put into the folder.
[[nodiscard]] std::optional<CheckpointId> parse_written_key(std::string_view key);
/// The checkpoint whose folder_key() `key` is; nothing for other keys.
[[nodiscard]] std::optional<CheckpointId> parse_folder_key(std::string_view key);
/// The snapshot with the key `key`; nothing for other keys.
[[nodiscard]] std::optional<CheckpointId> parse_snapshot_key(std::string_view key);
/// The generation whose snapshots lie in the folder `key` (without a slash at the end); nothing for other keys.
[[nodiscard]] std::optional<std::int64_t> parse_snapshot_folder(std::string_view key);
/// The generation that writes into the folder `key`, be it a checkpoint's or that of snapshots; nothing for other keys.
[[nodiscard]] std::optional<std::int64_t> generation_of_folder(std::string_view key);

/// A URI given by a person: it names a prefix, or one checkpoint under a prefix.
struct Place {
  std::string prefix_uri;
  std::optional<CheckpointId> id;
  bool operator==(const Place&) const = default;
};

/// Splits `uri`: a URI that ends in step-N/g-G (with or without a '/' after it) names one checkpoint. open_store()
/// checks the URI itself.
[[nodiscard]] Place parse_place(std::string_view uri);

}  // namespace trainyard::checkpoint
