#include "worker/dist/process_settings.hpp"

#include <ATen/Parallel.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "common/try.hpp"
#include "worker/rank/environment.hpp"
#include "worker/rank/group_environment.hpp"
#include "worker/rank/processors.hpp"

namespace trainyard::dist {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr rank::NumberRange any_seconds{.min = 1, .max = 31'536'000};

}  // namespace

Result<Deadlines> read_deadlines(const rank::Environment& environment) {
  Deadlines deadlines;
  const auto rendezvous = TRY(rank::optional_number(environment, rank::env_rendezvous_seconds, any_seconds));
  if (rendezvous) deadlines.rendezvous = seconds{*rendezvous};
  const auto hang = TRY(rank::optional_number(environment, rank::env_hang_seconds, any_seconds));
  if (hang) deadlines.collective = std::max<milliseconds>(deadlines.collective, 3 * seconds{*hang});
  const auto collective = TRY(rank::optional_number(environment, rank::env_collective_seconds, any_seconds));
  if (collective) deadlines.collective = seconds{*collective};
  return deadlines;
}

std::optional<milliseconds> collective_deadline(const Deadlines& deadlines, std::int64_t world_size) {
  if (world_size == 1) return std::nullopt;
  return deadlines.collective;
}

namespace {

/// Has glibc keep the memory of freed tensors.
void keep_freed_memory() {
  constexpr int mebibyte = 1 << 20, map_from_max = 32 * mebibyte;
  mallopt(M_TRIM_THRESHOLD, 1024 * mebibyte);  // So much freed memory at the end of the heap stays with the process.
  mallopt(M_TOP_PAD, map_from_max);
  mallopt(M_MMAP_THRESHOLD, map_from_max);  // Larger blocks are mapped, and unmapped when freed.
}

void set_unless_set(const char* name, const char* value) {
  setenv(name, value, 0);  // NOLINT(concurrency-mt-unsafe): before any other thread.
}

void switch_off_nccl_exits() {
  // NCCL's watchdog would abort the process with a stack trace, or wait for minutes. The launcher ends ranks instead.
  constexpr std::array<std::pair<const char*, const char*>, 6> settings{{
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "0"},
      {"TORCH_NCCL_ENABLE_MONITORING", "0"},
      {"TORCH_NCCL_DUMP_ON_TIMEOUT", "0"},
      {"TORCH_NCCL_PROPAGATE_ERROR", "0"},
      {"TORCH_NCCL_RETHROW_CUDA_ERRORS", "0"},
      {"TORCH_NCCL_BLOCKING_WAIT", "0"},
  }};
  for (const auto& [name, value] : settings) set_unless_set(name, value);
}

}  // namespace

Threads apply_process_settings(const rank::GroupEnvironment& environment) {
  switch_off_nccl_exits();
  // c10d's flight recorder keeps every collective with its stack. Nothing reads it here.
  set_unless_set("TORCH_FR_BUFFER_SIZE", "0");
  set_unless_set("THP_MEM_ALLOC_ENABLE", "1");  // torch then asks for transparent huge pages under its CPU tensors.
  keep_freed_memory();
  const rank::Environment variables = rank::process_environment();
  if (variables("OMP_NUM_THREADS")) return variables(rank::env_chose_threads) ? Threads::ours : Threads::users;
  const std::int64_t threads =
      rank::threads_per_rank(rank::read_processor_facts(variables), rank::rank_counts(environment));
  set_unless_set("OMP_NUM_THREADS", std::to_string(threads).c_str());
  at::set_num_threads(static_cast<int>(threads));
  return Threads::ours;
}

void return_freed_memory() {
  malloc_trim(/*pad=*/0);
}

void make_cublas_deterministic() {
  set_unless_set("CUBLAS_WORKSPACE_CONFIG", ":4096:8");  // Eight buffers of 4 MiB: as fast as cuBLAS's own choice.
}

Result<void> share_processors(const rank::GroupEnvironment& environment, Threads threads,
                              checkpoint::Communicator& communicator) {
  const std::string ours = rank::shared_processors();
  const auto all = TRY(communicator.all_gather(ours));
  if (threads == Threads::users) return {};
  rank::RankCounts ranks = rank::rank_counts(environment);
  ranks.on_node = std::ranges::count(all, ours);
  const rank::ProcessorFacts facts = rank::read_processor_facts(rank::process_environment());
  at::set_num_threads(static_cast<int>(rank::threads_per_rank(facts, ranks)));
  return {};
}

}  // namespace trainyard::dist
