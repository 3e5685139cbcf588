#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "checkpoint/group/communicator.hpp"
#include "common/result.hpp"
#include "worker/rank/environment.hpp"
#include "worker/rank/group_environment.hpp"

namespace trainyard::dist {

struct Deadlines {
  /// How long to wait for the other ranks where there is no launcher, which keeps a deadline of its own. Connecting
  /// NCCL has this time in either case.
  std::chrono::milliseconds rendezvous{std::chrono::minutes{10}};
  /// A collective fails after this time even if no failure was reported. It is longer than a launcher's hang deadline,
  /// so that the launcher finds the stuck rank first.
  std::chrono::milliseconds collective{std::chrono::minutes{30}};
  bool operator==(const Deadlines&) const = default;
};

/// The deadlines of TRAINYARD_RENDEZVOUS_SECONDS and TRAINYARD_COLLECTIVE_SECONDS. Without the latter: half an hour, or
/// three times TRAINYARD_HANG_SECONDS where that is longer. ErrorKind::invalid names a variable with another value.
[[nodiscard]] Result<Deadlines> read_deadlines(const rank::Environment& environment);

/// How long a rank of a group of `world_size` waits for a collective or a step on its device. Nothing for a group of
/// one: no peer can be lost there, and however long a step takes, the launcher alone decides whether it hangs.
[[nodiscard]] std::optional<std::chrono::milliseconds> collective_deadline(const Deadlines& deadlines,
                                                                           std::int64_t world_size);

/// The party that chose the number of threads: this program (`ours`) or the user (`users`), whose choice is kept.
enum class Threads { ours, users };

/// Sets NCCL's watchdog, the memory allocator and the number of threads, but keeps what the user has set. A rank's
/// first call in main: it changes the environment, so that no other thread (as of the RankLink) may run yet, nor CUDA
/// be loaded. The allocator then keeps the memory of freed tensors below 32 MiB for the next ones, which gives about
/// 14 % more speed in DDP than glibc's defaults, and 25 % in one process, on FashionCNN.
[[nodiscard]] Threads apply_process_settings(const rank::GroupEnvironment& environment);

/// Returns the freed memory that the process has kept to the system. Takes some milliseconds: for when much was freed
/// that is not used again soon.
void return_freed_memory();

/// Gives cuBLAS a workspace of fixed size, without which its results may differ from run to run and torch refuses them
/// to deterministic programs. Keeps what the user has set. To be called when apply_process_settings() may be.
void make_cublas_deterministic();

/// Reduces the number of threads where ranks of other pods share this node's processors, which no rank knows before the
/// group has formed. Collective; errors are the communicator's.
[[nodiscard]] Result<void> share_processors(const rank::GroupEnvironment& environment, Threads threads,
                                            checkpoint::Communicator& communicator);

}  // namespace trainyard::dist
