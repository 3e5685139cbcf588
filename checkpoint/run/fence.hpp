#pragma once

#include "checkpoint/format/claim.hpp"
#include "checkpoint/format/manifest.hpp"
#include "checkpoint/run/inventory.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"

/// Decides which run may claim a prefix, and keeps two writers of one prefix apart. docs/glossary.md explains run,
/// generation, claim, life and sign of life.
///
/// After a restart the newest attempt alone completes checkpoints: its rank 0 claims the next generation, which fences
/// all lower ones. A fenced run may still put data files. Its rank 0 calls check_newest() before and after it puts a
/// manifest. A call fails if the run has been fenced by then. The save then fails too, and the run ends with exit code
/// 92, or 93 if another job fenced it.
///
/// There is one exception: a run that is fenced between the two calls still puts the manifest. The newest attempt has
/// claimed by then, and lists the prefix once more before it says in its claim from which step it resumes. It loads
/// that checkpoint if it finds the manifest. If it does not, and the checkpoint's step is later than the one from which
/// the newest attempt resumed, the checkpoint is superseded: no restore takes it. If the step is not later, the
/// checkpoint is one like any other.
///
/// Where the store has no conditional create, a writer asks for an object right before it puts the object. Two writers
/// that put within one round trip of each other both believe that the object is theirs. The writer whose claim was
/// overwritten gets an error at its next check_newest(), at the latest when it saves.

namespace trainyard::checkpoint {

/// Success when a run of `ours` may claim the next generation:
///   (1) no newer attempt of our life (the job with our UID) has claimed, and
///   (2) the newest run has stored its end; or, since a killed run cannot store it, the newest run is of the same job
///       and gives no sign of life at `now`. A job that was deleted and created again has a new UID. So, after a killed
///       run with another UID, `ours` may claim only if no run with our UID has claimed before: otherwise the newest
///       run is of the job's later life, and ours is of the earlier one.
/// `store` is used only for URIs in messages.
/// ErrorKind::conflict: (1) does not hold. invalid: (2) does not hold, and the message names the newest run's job; or a
/// claim cannot be read, so that nobody knows which checkpoints are superseded. `retry_after`: how long the newest
/// run's last sign of life is still valid. It is set only if that run is of the same job and was started by hand, and
/// this machine cannot tell whether its process runs.
[[nodiscard]] Result<void> check_may_claim(const Inventory& inventory, const Identity& ours,
                                           const storage::Store& store, Time now);

/// Success when every claim could be read. ErrorKind::invalid names an unreadable claim, and what to do.
[[nodiscard]] Result<void> check_claims_readable(const Inventory& inventory, const storage::Store& store);

/// 32 random hexadecimal digits.
[[nodiscard]] std::string make_nonce();

/// Claims `claim`'s generation. already_exists when another run has claimed it.
[[nodiscard]] Result<void> put_claim(storage::Store& store, const Claim& claim);

/// Puts the run's claim once more, now that `claim` says what the run resumes from. Errors of check_newest().
[[nodiscard]] Result<void> close_claim(storage::Store& store, const Claim& claim);

/// Success while `ours` is the highest claim. conflict when a run of the same job has a higher claim, or `ours` is
/// gone; invalid, with the other job's name, when another job has one.
[[nodiscard]] Result<void> check_newest(storage::Store& store, const Claim& ours);

/// Puts the end of `ours`'s generation: its run has ended in order.
[[nodiscard]] Result<void> put_end(storage::Store& store, const Claim& ours);

/// Makes a checkpoint complete. Call check_newest() before. The manifest's nonce must begin with that of `ours`. A
/// manifest that this run put under the same key before is replaced. ErrorKind::conflict when another run put the one
/// that is there; invalid when the manifest is larger than readers accept.
[[nodiscard]] Result<void> put_manifest(storage::Store& store, const Manifest& manifest, const Claim& ours);

}  // namespace trainyard::checkpoint
