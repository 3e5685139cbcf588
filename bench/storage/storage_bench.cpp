// Measures our side of scripts/bench storage: one part in one process or rank, with the libraries that a training rank
// uses. Prints one JSON object of samples, from which bench/storage/run makes the table.
#include <ATen/Functions.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/check.hpp"
#include "common/clock.hpp"
#include "common/result.hpp"
#include "common/try.hpp"
#include "storage/store.hpp"
#include "worker/checkpoint/checkpointer.hpp"
#include "worker/dist/group.hpp"
#include "worker/dist/process_settings.hpp"
#include "worker/rank/rank_link.hpp"

namespace trainyard::bench {
namespace {

using checkpoint::Placement;
using nlohmann::json;

struct Options {
  std::string uri;
  std::int64_t size_mb = 500;
  std::int64_t rounds = 3;
  double segment_seconds = 5.0;
  double step_seconds = 0.25;
};

class Stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
  }

 private:
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

/// The bytes in the line of `field` in /proc/self/status, such as "VmHWM:   123 kB".
std::int64_t status_bytes(const std::string& field) {
  std::ifstream status{"/proc/self/status"};
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":")) return std::stoll(line.substr(field.size() + 1)) * 1024;
  }
  check(false, "the kernel tells how much memory a process has");
  return 0;
}

/// The growth of this process's resident memory to its peak, since the meter was made. Use one meter at a time, since
/// the kernel keeps one peak for a process.
class MemoryMeter {
 public:
  MemoryMeter() { std::ofstream{"/proc/self/clear_refs"} << 5; }  // Resets the peak: proc(5).
  [[nodiscard]] std::int64_t peak_bytes_above() const { return status_bytes("VmHWM") - resident_bytes_; }

 private:
  std::int64_t resident_bytes_ = status_bytes("VmRSS");
};

/// The CPU time, user and system, of this process with all its threads.
double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

[[noreturn]] void give_up(const std::string& why) {
  std::cerr << "error: " << why << '\n';
  std::exit(1);
}

template <typename T>
T value_or_exit(Result<T> result) {
  if (!result) give_up(result.error().message);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

// The parameters and Adam's two moments of square layers, as in torch_peers.py; `megabytes` in all, rounded to whole
// layers.
checkpoint::State make_state(std::int64_t megabytes) {
  constexpr std::int64_t width = 1024;
  constexpr std::int64_t layer_bytes = 3 * (width * width + width) * 4;
  checkpoint::State state;
  for (std::int64_t layer = 0; layer < std::max<std::int64_t>(1, megabytes * 1'000'000 / layer_bytes); ++layer) {
    for (const char* kind : {"model", "optimizer.exp_avg", "optimizer.exp_avg_sq"}) {
      const bool is_parameter = std::string_view{kind} == "model";
      for (const auto& [name, tensor] : {std::pair{"weight", at::rand({width, width})}, {"bias", at::rand({width})}}) {
        state.entries.push_back({.name = fmt::format("{}.{}.{}", kind, layer, name),
                                 .placement = Placement::replicated,
                                 .tensor = tensor,
                                 .must_be_finite = is_parameter,
                                 .is_steady = true});
      }
    }
  }
  return state;
}

std::int64_t bytes_of(const checkpoint::State& state) {
  std::int64_t bytes = 0;
  for (const auto& entry : state.entries) bytes += static_cast<std::int64_t>(entry.tensor.nbytes());
  return bytes;
}

// The seconds of one memcpy into memory that was written before.
class MemoryCopy {
 public:
  explicit MemoryCopy(std::int64_t bytes)
      : from_{at::full({bytes}, 1, at::kByte)}, to_{at::full({bytes}, 2, at::kByte)} {}
  [[nodiscard]] double seconds() const {
    const Stopwatch watch;
    std::memcpy(to_.data_ptr(), from_.data_ptr(), from_.nbytes());
    return watch.seconds();
  }

 private:
  at::Tensor from_;
  at::Tensor to_;
};

// One rank of a job, with a state to save.
class Rank {
 public:
  explicit Rank(const Options& options)
      : link_{rank::open_rank_link()},
        group_{value_or_exit(form_group())},
        state_{make_state(options.size_mb)},
        checkpointer_{open(options)} {}

  /// Seconds that it takes to load the newest checkpoint, if there is one.
  double restore() {
    wait_for_others();
    const Stopwatch watch;
    const auto restored = value_or_exit(checkpointer_->restore(state_));
    has_restored_ = restored.has_value();
    return watch.seconds();
  }

  /// The seconds for which training is blocked.
  double begin_save() {
    const Stopwatch watch;
    checkpointer_->begin_save(state_, ++step_, {});
    return watch.seconds();
  }
  /// Seconds for which an optimizer's step waits.
  double finish_staging() {
    const Stopwatch watch;
    checkpointer_->finish_staging();
    return watch.seconds();
  }

  void finish_save() {
    const auto outcome = checkpointer_->take_outcome(std::chrono::minutes{10});
    if (!outcome) give_up("the save does not end");
    if (!value_or_exit(outcome->saved)) give_up("the state is not finite");
  }

  void wait_for_others() { value_or_exit(group_.communicator->all_gather("")); }

  [[nodiscard]] bool is_saving() const { return checkpointer_->is_saving(); }
  [[nodiscard]] bool has_restored() const { return has_restored_; }
  [[nodiscard]] std::int64_t state_bytes() const { return bytes_of(state_); }
  [[nodiscard]] std::int64_t world_size() const { return group_.world_size; }

 private:
  Result<dist::Group> form_group() {
    auto environment = TRY(rank::parse_group_environment(rank::process_environment()));
    std::ignore = dist::apply_process_settings(environment);  // No other ranks run on this node.
    return dist::form_group(environment, *link_);
  }

  std::unique_ptr<checkpoint::Checkpointer> open(const Options& options) {
    api::CheckpointSpec spec;
    spec.uri = options.uri;
    spec.keep.last = options.rounds + 1;  // The peers remove no old checkpoints either.
    const checkpoint::Identity identity{
        .job = "bench/storage", .job_uid = {}, .attempt = 1, .fingerprint = std::to_string(options.size_mb)};
    return value_or_exit(checkpoint::open_checkpointer(spec, identity, *group_.checkpoint_communicator, clock_));
  }

  SystemClock clock_;
  std::unique_ptr<rank::RankLink> link_;
  dist::Group group_;
  checkpoint::State state_;
  std::unique_ptr<checkpoint::Checkpointer> checkpointer_;
  std::int64_t step_ = 0;
  bool has_restored_ = false;
};

/// Work that uses the processors as a forward and a backward pass do.
class Work {
 public:
  /// Makes steps that take `seconds` each.
  explicit Work(double seconds) {
    constexpr std::int64_t products_to_measure = 20;
    multiply(products_to_measure);
    products_ = static_cast<std::int64_t>(seconds / (multiply(products_to_measure) / products_to_measure)) + 1;
  }
  /// The seconds that one step takes.
  double step() { return multiply(products_); }

 private:
  double multiply(std::int64_t products) {
    const Stopwatch watch;
    for (std::int64_t i = 0; i < products; ++i) at::mm_out(product_, a_, a_);
    return watch.seconds();
  }

  at::Tensor a_ = at::rand({1024, 1024});
  at::Tensor product_ = at::empty_like(a_);
  std::int64_t products_ = 0;
};

/// Saves several times in a row; the time of a save ends when it is durable. The first save also allocates the memory
/// that the later ones reuse.
json save(const Options& options) {
  Rank rank{options};
  rank.restore();
  json samples{{"bytes", rank.state_bytes()}};
  for (std::int64_t round = 0; round <= options.rounds; ++round) {
    rank.wait_for_others();
    const Stopwatch watch;
    rank.begin_save();
    rank.finish_save();
    if (round > 0) samples["seconds"].push_back(watch.seconds());
  }
  return samples;
}

/// The time for which training is blocked by a save that begins before a step's forward pass and whose copy the
/// optimizer's step waits for.
json stall(const Options& options) {
  Rank rank{options};
  const MemoryCopy copy{rank.state_bytes() / rank.world_size()};
  Work work{options.step_seconds};
  rank.restore();
  json samples{{"bytes", rank.state_bytes()}};
  for (std::int64_t round = 0; round <= options.rounds; ++round) {
    rank.wait_for_others();
    const double copy_seconds = copy.seconds();
    rank.wait_for_others();
    const double step_seconds = work.step();
    rank.wait_for_others();
    const double begin_seconds = rank.begin_save();
    const double slow_step_seconds = work.step();
    const double stall_seconds = begin_seconds + rank.finish_staging();
    rank.finish_save();
    if (round == 0) {
      samples["first_stall_seconds"] = stall_seconds;
      continue;
    }
    samples["stall_seconds"].push_back(stall_seconds);
    samples["slowed_seconds"].push_back(slow_step_seconds - step_seconds);
    samples["copy_seconds"].push_back(copy_seconds);
  }
  return samples;
}

/// A loop of fixed work, alternately without a save and with a save that begins with the loop.
json loop(const Options& options) {
  Rank rank{options};
  rank.restore();
  Work work{options.segment_seconds};
  json samples{{"bytes", rank.state_bytes()}, {"outlasted", 0}};
  for (std::int64_t round = 0; round <= options.rounds; ++round) {
    const double without_seconds = work.step();
    const Stopwatch watch;
    rank.begin_save();
    work.step();
    const double with_seconds = watch.seconds();
    const bool has_outlasted = rank.is_saving();
    rank.finish_save();
    if (round == 0) continue;
    samples["without_seconds"].push_back(without_seconds);
    samples["with_seconds"].push_back(with_seconds);
    samples["outlasted"] = samples["outlasted"].get<int>() + (has_outlasted ? 1 : 0);
  }
  return samples;
}

/// Loads the checkpoints of save().
json restore(const Options& options) {
  Rank rank{options};
  const double seconds = rank.restore();
  if (!rank.has_restored()) give_up("there is no checkpoint in " + options.uri);
  return {{"bytes", rank.state_bytes()}, {"seconds", seconds}};
}

at::Tensor make_object(const Options& options) {
  return at::randint(0, 256, {1 << 20}, at::kByte).repeat({options.size_mb});
}

/// Puts `bytes` as one object, as a checkpoint's staged bytes are.
json put_object(storage::Store& store, const at::Tensor& bytes) {
  const std::span<const std::byte> piece{static_cast<const std::byte*>(bytes.data_ptr()), bytes.nbytes()};
  const MemoryMeter memory;
  const double cpu_seconds_before = cpu_seconds();
  const Stopwatch watch;
  value_or_exit(store.put("object", {&piece, 1}));
  return {{"bytes", bytes.nbytes()},
          {"seconds", watch.seconds()},
          {"cpu_seconds", cpu_seconds() - cpu_seconds_before},
          {"memory_bytes", memory.peak_bytes_above()}};
}

json upload(const Options& options) {
  const auto store = value_or_exit(storage::open_store(options.uri));
  return put_object(*store, make_object(options));
}

/// Puts one object, and reads it back into memory that is there, as a restore reads a range.
json transfer(const Options& options) {
  const at::Tensor bytes = make_object(options);
  const auto store = value_or_exit(storage::open_store(options.uri));
  json samples{{"upload", put_object(*store, bytes)}};
  const at::Tensor read = at::zeros_like(bytes);
  const double cpu_seconds_before = cpu_seconds();
  const Stopwatch watch;
  value_or_exit(store->get_range("object", 0, {static_cast<std::byte*>(read.data_ptr()), read.nbytes()}));
  samples["download"] = {
      {"bytes", read.nbytes()}, {"seconds", watch.seconds()}, {"cpu_seconds", cpu_seconds() - cpu_seconds_before}};
  if (!at::equal(bytes, read)) give_up("what was read is not what was put to " + options.uri);
  return samples;
}

int run(int argc, char** argv) {
  Options options;
  std::optional<json> samples;
  CLI::App app{"Measures one part of scripts/bench storage and prints a JSON object of samples"};
  app.require_subcommand(1);
  const auto add = [&](const char* name, json (*part)(const Options&)) {
    CLI::App* command = app.add_subcommand(name);
    command->add_option("--uri", options.uri, "Where to")->required();
    command->add_option("--size-mb", options.size_mb, "Size of the state or of the upload, in MiB");
    command->add_option("--rounds", options.rounds, "Samples, after one that does not count");
    command->add_option("--segment-seconds", options.segment_seconds, "Length of one piece of the loop's work");
    command->add_option("--step-seconds", options.step_seconds, "Length of the stall's forward and backward");
    command->callback([&samples, &options, part] { samples = part(options); });
  };
  add("stall", stall);
  add("save", save);
  add("loop", loop);
  add("restore", restore);
  add("upload", upload);
  add("transfer", transfer);
  CLI11_PARSE(app, argc, argv);
  std::cout << *samples << '\n';
  return 0;
}

}  // namespace
}  // namespace trainyard::bench

int main(int argc, char** argv) {
  return trainyard::bench::run(argc, argv);
}
