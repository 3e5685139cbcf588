#pragma once

#include "checkpoint/format/claim.hpp"
#include "checkpoint/format/manifest.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"

/// What keeps two writers of one prefix apart. Where the store has no conditional create, an object is asked for right
/// before it is put: two writers that do so within one round trip of each other both believe that they have made it,
/// and the one whose claim was overwritten is refused when it saves.
namespace trainyard::checkpoint {

/// A new text of 32 random hexadecimal digits.
[[nodiscard]] std::string make_nonce();

/// Makes `claim` the claim of its generation. already_exists when another has it.
[[nodiscard]] Result<void> put_claim(storage::Store& store, const Claim& claim);

/// Settles what the run of `claim`, which it has put open, resumes from. Errors of check_newest().
[[nodiscard]] Result<void> close_claim(storage::Store& store, const Claim& claim);

/// Success while nobody has claimed a higher generation than `ours`. Else conflict for a run of the same job, or
/// invalid, which names the other job.
[[nodiscard]] Result<void> check_newest(storage::Store& store, const Claim& ours);

/// Records that `ours`'s run has ended in order.
[[nodiscard]] Result<void> put_end(storage::Store& store, const Claim& ours);

/// Makes a checkpoint complete, after check_newest(). Its nonce must begin with `ours`'s. One that this run wrote
/// before under the same key is replaced. ErrorKind::conflict when another run wrote the manifest that is there.
[[nodiscard]] Result<void> put_manifest(storage::Store& store, const Manifest& manifest, const Claim& ours);

}  // namespace trainyard::checkpoint
