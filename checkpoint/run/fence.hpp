#pragma once

#include "checkpoint/format/claim.hpp"
#include "checkpoint/format/manifest.hpp"
#include "common/result.hpp"
#include "storage/store.hpp"

/// Keeps two writers of one prefix apart. Where the store has no conditional create, a writer asks for an object right
/// before it puts the object. Two writers that do so within one round trip both believe that they have created the
/// object; the writer whose claim was overwritten gets an error when it saves. checkpoint/run/claim_permission.hpp
/// decides which run may claim at all.
namespace trainyard::checkpoint {

/// 32 random hexadecimal digits.
[[nodiscard]] std::string make_nonce();

/// Claims `claim`'s generation. already_exists when another run has claimed it.
[[nodiscard]] Result<void> put_claim(storage::Store& store, const Claim& claim);

/// Closes the run's open claim: `claim` says what the run resumes from. Errors of check_newest().
[[nodiscard]] Result<void> close_claim(storage::Store& store, const Claim& claim);

/// Success while `ours` is the highest claim. conflict when a run of the same job has a higher claim, or `ours` is
/// gone; invalid, with the other job's name, when another job has one.
[[nodiscard]] Result<void> check_newest(storage::Store& store, const Claim& ours);

/// Puts the end of `ours`'s generation: its run has ended in order.
[[nodiscard]] Result<void> put_end(storage::Store& store, const Claim& ours);

/// Makes a checkpoint complete. Call check_newest() before. The manifest's nonce must begin with that of `ours`. A
/// manifest that this run put under the same key before is replaced. ErrorKind::conflict when another run put the one
/// that is there.
[[nodiscard]] Result<void> put_manifest(storage::Store& store, const Manifest& manifest, const Claim& ours);

}  // namespace trainyard::checkpoint
