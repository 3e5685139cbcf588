#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "api/contract.hpp"
#include "checkpoint/run/agreement.hpp"
#include "checkpoint/run/start_patience.hpp"
#include "common/clock.hpp"
#include "common/logging.hpp"
#include "common/try.hpp"
#include "include/trainyard/program.hpp"
#include "storage/store.hpp"
#include "worker/checkpoint/checkpointer.hpp"
#include "worker/dist/device_memory.hpp"
#include "worker/dist/nccl_links.hpp"
#include "worker/dist/process_settings.hpp"
#include "worker/dist/steps_in_flight.hpp"
#include "worker/dist/wait_or_fail.hpp"
#include "worker/rank/environment.hpp"
#include "worker/rank/group_environment.hpp"
#include "worker/rank/seat.hpp"
#include "worker/strategy/strategies.hpp"
#include "worker/train/agree_on_data.hpp"
#include "worker/train/batch_sequence.hpp"
#include "worker/train/ddp_settings.hpp"
#include "worker/train/ending.hpp"
#include "worker/train/evaluation_job.hpp"
#include "worker/train/job.hpp"
#include "worker/train/log_files.hpp"
#include "worker/train/make_model.hpp"
#include "worker/train/module_replicas.hpp"
#include "worker/train/named_tensors.hpp"
#include "worker/train/open_datasets.hpp"
#include "worker/train/optimizer_turns.hpp"
#include "worker/train/precision.hpp"
#include "worker/train/process_sets.hpp"
#include "worker/train/program_call.hpp"
#include "worker/train/rank_device.hpp"
#include "worker/train/script_model.hpp"
#include "worker/train/snapshot_taker.hpp"
#include "worker/train/start_wait.hpp"
#include "worker/train/timeline_file.hpp"
#include "worker/train/tracer.hpp"
#include "worker/train/trainer.hpp"
#include "worker/train/training_log.hpp"

namespace trainyard {
namespace train {
namespace {

using rank::RankEnd;
using rank::RankLink;

void set_up_logging(const rank::Environment& environment) {
  const auto asked = environment(rank::env_log_format);
  const bool is_text = asked ? *asked == "text" : isatty(STDERR_FILENO) != 0;
  logging::set_up(is_text ? logging::Format::text : logging::Format::json, logging::Level::info);
}

api::Every copies_every(const Job& job) {
  return job.checkpoint && job.checkpoint->local ? job.checkpoint->local->every : api::Every{};
}

void report_loading(RankLink& link) {
  rank::RankProgress progress;
  progress.phase = "Loading";
  link.report(progress);
}

/// The end of a rank that could not connect to others.
tl::unexpected<RankEnd> not_connected(const RankLink& link, const Error& error) {
  if (auto failure = link.group_failure()) return tl::unexpected(*failure);
  if (link.is_stop_requested()) {
    return tl::unexpected(RankEnd{.exit_code = contract::exit_preempted,
                                  .reason = "Preempted",
                                  .message = "stopped as asked while the group was forming; nothing was trained",
                                  .culprit = {}});
  }
  return end_rank(Stage::rendezvous, error);
}

OrEnd<dist::Group> form_group(const dist::Deadlines& deadlines, const rank::GroupEnvironment& group,
                              torch::Device device, const api::TrainingSpec& training, RankLink& link) {
  dist::GroupOptions options{
      .rendezvous_deadline = deadlines.rendezvous,
      .collective_deadline = deadlines.collective,
      .has_averaging_reducer = training.task == api::Task::fit && api::is_async(training.strategy),
      .has_pods = training.task == api::Task::fit && training.strategy.hierarchical};
  if (device.is_cuda()) options.cuda_device = device.index();
  options.has_gloo_alone = training.strategy.process_group_backend == api::ProcessGroupBackend::gloo;
  auto formed = dist::form_group(group, link, options);
  if (!formed) return not_connected(link, formed.error());
  return std::move(*formed);
}

/// The seats of all ranks. Rank 0 warns when pods of the job share a node, because NCCL is slow between them.
Result<std::vector<rank::Seat>> gather_seats(const std::string& node, const rank::GroupEnvironment& group,
                                             checkpoint::Communicator& communicator) {
  const rank::Seat own{.node = node, .first_rank = *group.rank - group.local_rank};
  const auto texts = TRY(communicator.all_gather(rank::to_text(own)));
  std::vector<rank::Seat> seats;
  for (const std::string& text : texts) {
    auto seat = TRY(rank::parse_seat(text));
    seats.push_back(std::move(seat));
  }
  const auto warning = *group.rank == 0 ? rank::split_node_warning(seats) : std::nullopt;
  if (warning) logging::warn(*warning, {});
  return seats;
}

/// The first rank of each pod says how NCCL connects it to the others, and warns of a slow way.
void report_nccl_links(const dist::NcclLog& log, std::int64_t rank, std::span<const rank::Seat> seats) {
  if (seats[static_cast<std::size_t>(rank)].first_rank != rank) return;
  const auto links = dist::parse_nccl_links(log.text(), rank);
  if (links.empty()) return;
  logging::info("NCCL is connected", {{"rank", rank}, {"sends", dist::to_text(links)}});
  if (const auto warning = dist::network_in_pod_warning(links, rank, seats)) logging::warn(*warning, {});
}

OrEnd<std::optional<SampleRecord>> open_sample_record(const Job& job, const rank::GroupEnvironment& group) {
  if (!job.sample_record_file) return std::nullopt;
  auto sample_record = SampleRecord::open(*job.sample_record_file, group.attempt, *group.rank);
  if (!sample_record) return end_rank(Stage::data, sample_record.error());
  return std::move(*sample_record);
}

void log_end(const RankEnd& ended) {
  if (ended.exit_code == contract::exit_success)
    return logging::info("rank done", {{"reason", ended.reason}, {"summary", ended.message}});
  const logging::Fields fields{{"reason", ended.reason}, {"exitCode", ended.exit_code}, {"error", ended.message}};
  const bool is_failure = ended.exit_code != contract::exit_preempted && ended.exit_code != contract::exit_peer_lost;
  is_failure ? logging::error("rank ends", fields) : logging::warn("rank ends", fields);
}

/// How long to wait for the last snapshot, the last lines of log files and the trace together. It is short for a failed
/// run, which should restart soon, and for a stopped one, whose grace period went mostly into its checkpoint.
std::chrono::milliseconds writing_patience(int exit_code) {
  using namespace std::chrono_literals;
  if (exit_code == contract::exit_success) return 10s;
  return exit_code == contract::exit_preempted ? 2s : 1s;
}

/// The parts of a run; later ones use earlier ones. Nothing is destroyed before the process ends, because in a broken
/// group a destructor could wait for ever.
struct Run {
  SystemClock clock;
  std::string device_name = "the device";                  // For messages.
  std::unique_ptr<dist::DeviceMemoryGauge> device_memory;  // nullptr on the CPU
  std::vector<rank::Seat> seats;                           // By rank; empty on the CPU.
  Job job;
  std::shared_ptr<Module> module;
  std::string script_digest;  // of the module's file, if it is a script
  Datasets datasets;
  dist::Group group;
  std::optional<dist::StepsInFlight> in_flight;  // nothing on the CPU
  ProcessSets process_sets;
  std::unique_ptr<TimelineFile> timeline;  // nullptr where nothing is recorded
  std::vector<OptimizerTurn> turns;
  std::unique_ptr<ModuleReplicas> replicas;  // nullptr: the module has none
  std::unique_ptr<checkpoint::Checkpointer> checkpointer;
  std::unique_ptr<SnapshotTaker> snapshots;
  std::unique_ptr<LogFiles> log_files;
  std::unique_ptr<Tracer> tracer;
  std::optional<Trainer> trainer;
};

/// nullptr when the job saves no checkpoints.
OrEnd<std::unique_ptr<checkpoint::Checkpointer>> open_checkpoints(const Run& run, const rank::GroupEnvironment& group,
                                                                  const std::string& node,
                                                                  const checkpoint::StartPatience& patience) {
  if (!run.job.checkpoint) return nullptr;
  const checkpoint::Identity identity{
      .job = group.job_namespace.empty() ? group.job : group.job_namespace + "/" + group.job,
      .job_uid = group.job_uid,
      .attempt = group.attempt,
      .fingerprint = fingerprint(run.job.training.model.name, *run.module, run.datasets, run.job.training.data)};
  auto opened =
      checkpoint::open_checkpointer(*run.job.checkpoint, identity, *run.group.checkpoint_communicator, run.clock,
                                    {.node = node, .patience = patience, .device_memory = run.device_memory.get()});
  if (!opened) return end_rank(Stage::checkpoint, opened.error());
  return std::move(*opened);
}

/// nullptr when the job makes no snapshots, and on all ranks but 0.
OrEnd<std::unique_ptr<SnapshotTaker>> open_snapshots(const Run& run, std::int64_t attempt) {
  if (!run.job.training.snapshots || run.group.rank != 0) return nullptr;
  auto store = checkpoint::open_place(*run.job.checkpoint);
  if (!store) return end_rank(Stage::checkpoint, store.error());
  return std::make_unique<SnapshotTaker>(std::move(*store), run.clock, attempt);
}

/// nullptr when the job writes no log files, and on all ranks but 0.
OrEnd<std::unique_ptr<LogFiles>> open_log_files(const Run& run, std::int64_t attempt) {
  if (run.job.training.log_files.empty() || run.group.rank != 0) return nullptr;
  auto place = open_log_place(run.job);
  if (!place) return end_rank(Stage::spec, place.error());
  logs::WriterSettings settings{
      .files = run.job.training.log_files, .folder = std::move(place->folder), .attempt = attempt};
  return std::make_unique<LogFiles>(std::move(place->store), run.clock, std::move(settings));
}

/// nullptr when the job asks for no trace.
OrEnd<std::unique_ptr<Tracer>> open_tracer(const Run& run, std::int64_t attempt, torch::Device device) {
  if (!run.job.training.profile) return nullptr;
  auto place = open_log_place(run.job);
  if (!place) return end_rank(Stage::spec, place.error());
  return std::make_unique<Tracer>(std::move(*place), trace_key(run.clock.now(), attempt, run.group.rank),
                                  *run.job.training.profile, device);
}

std::shared_ptr<c10d::CommHookInterface> comm_hook_of(const Run& run) {
  const ProgramCall call{"configure_comm_hook()"};
  return run.module->configure_comm_hook(run.group.process_group);
}

std::chrono::milliseconds time_until(Instant deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return std::max(left, std::chrono::milliseconds{0});
}

/// Waits for the snapshot in flight, whether the run succeeded or not. It is usually stored already, because it began
/// before the last checkpoint.
void finish_snapshots(const Run& run, Instant deadline) {
  if (run.snapshots == nullptr || run.snapshots->finish(time_until(deadline))) return;
  logging::warn("the last snapshot was not saved: the time is up", {});
}

void finish_log_files(const Run& run, Instant deadline) {
  if (run.log_files == nullptr || run.log_files->finish(time_until(deadline))) return;
  logging::warn("the last lines of the log files were not stored: the time is up, or the store failed", {});
}

void finish_traces(const Run& run, const RankEnd& ended, Instant deadline) {
  // The end of a recording waits for the device, which may be what failed, or may wait for a lost peer.
  const bool is_failure = ended.exit_code != contract::exit_success && ended.exit_code != contract::exit_preempted;
  if (is_failure) return;
  if (run.tracer != nullptr && !run.tracer->finish(time_until(deadline)))
    logging::warn("the trace was not stored: the time is up", {});
  if (run.timeline != nullptr && !run.timeline->finish(time_until(deadline)))
    logging::warn("the timeline of exchanges was not stored: the time is up", {});
}

/// nullptr where the strategy does not divide batches.
OrEnd<std::unique_ptr<ModuleReplicas>> make_replicas(const RankDevice& own, const Models& models, const Run& run,
                                                     const rank::GroupEnvironment& group,
                                                     const checkpoint::StartPatience& patience) {
  const api::TrainingSpec& training = run.job.training;
  if (!api::has_replicas(training.strategy)) return nullptr;
  const auto devices = devices_of_further_replicas(own, group, training);
  if (!devices) return end_rank(Stage::spec, devices.error());
  std::vector<FurtherReplica> replicas;
  for (const torch::Device device : *devices) {
    auto made = TRY(make_model_on(device, models, run.job, patience, run.clock));
    if (made.script_digest != run.script_digest) {
      return end_rank(Stage::data,
                      {.kind = ErrorKind::unavailable,
                       .message = fmt::format("{}: was replaced while this rank read it for each of its devices",
                                              training.model.uri),
                       .retry_after = {}});
    }
    replicas.push_back({.module = std::move(made.module), .device = device});
  }
  return std::make_unique<ModuleReplicas>(*run.module, own.device, std::move(replicas),
                                          ReplicaOptions{.has_threads = !own.device.is_cpu(), .seed = training.seed});
}

/// Runs a job that trains nothing. `wait`: for collectives.
OrEnd<RankEnd> run_evaluation(Run& run, strategy::GradientSync& gradients, RankLink& link, std::int64_t attempt,
                              torch::Device device, const strategy::WaitForWork& wait,
                              const checkpoint::StartPatience& patience) {
  const api::TrainingSpec& training = run.job.training;
  run.log_files = TRY(open_log_files(run, attempt));
  std::unique_ptr<storage::Store> predictions;
  if (training.task == api::Task::predict) {
    auto place = open_log_place(run.job);
    if (!place) return end_rank(Stage::spec, place.error());
    predictions = std::move(place->store);
  }
  return run_evaluation_job({.training = training,
                             .module = *run.module,
                             .replicas = run.replicas.get(),
                             .data = *data_of(training.task, run.datasets),
                             .gradients = gradients,
                             .group = run.group,
                             .link = link,
                             .wait = wait,
                             .in_flight = run.in_flight ? &*run.in_flight : nullptr,
                             .weights_s3 = read_options(run.job),
                             .start_patience = patience,
                             .log_files = run.log_files.get(),
                             .predictions = predictions.get(),
                             .process_sets = &run.process_sets,
                             .device = device,
                             .clock = run.clock});
}

/// The rank's knowledge before the group has formed.
struct Beginning {
  rank::Environment environment;
  rank::GroupEnvironment group;
  dist::Threads threads = dist::Threads::users;
  const dist::NcclLog& nccl_log;
};

OrEnd<RankEnd> train(const Models& models, const Beginning& beginning, RankLink& link, Run& run) {
  const rank::Environment& environment = beginning.environment;
  const rank::GroupEnvironment& group = beginning.group;
  const auto deadlines = dist::read_deadlines(environment);
  if (!deadlines) return end_rank(Stage::rendezvous, deadlines.error());
  auto job = read_job(environment);
  if (!job) return end_rank(Stage::spec, job.error());
  run.job = std::move(*job);
  const api::TrainingSpec& training = run.job.training;
  auto opened = TRY(open_device(environment, group, training));
  run.device_memory = std::move(opened.memory);
  const torch::Device device = opened.device;
  run.device_name = fmt::format("{} of node {}", device.str(), node_name(environment));
  if (const auto checked = check_process_group_backend(device, training.strategy); !checked)
    return end_rank(Stage::spec, checked.error());
  if (api::has_replicas(training.strategy) && opened.gpus.size() > 1)
    run.device_name = "a GPU of node " + node_name(environment);
  apply_math_settings(training);
  torch::manual_seed(static_cast<std::uint64_t>(training.seed));
  report_loading(link);
  const auto duration = start_patience_of(environment);
  if (!duration) return end_rank(Stage::rendezvous, duration.error());
  const checkpoint::StartPatience patience = start_patience(*duration, link, run.clock);
  auto made = TRY(make_model_on(device, models, run.job, patience, run.clock));
  run.module = std::move(made.module);
  run.script_digest = std::move(made.script_digest);
  const auto folder = find_data(run.job, link, run.clock, patience);
  // A refusal may concern the whole job or only this rank's node: the ranks compare their results once the group has
  // formed.
  if (!folder && !checkpoint::is_access_denied(folder.error().kind)) return end_rank(Stage::data, folder.error());
  if (folder) {
    auto datasets = open_datasets(*run.module, run.job, *folder, device,
                                  {.rank = group.rank.value_or(0), .world_size = group.world_size});
    if (!datasets) return end_rank(Stage::data, datasets.error());
    run.datasets = std::move(*datasets);
  }
  run.group = TRY(form_group(*deadlines, group, device, training, link));
  const auto order_sizes =
      checkpoint::agree(*run.group.communicator, folder.map([](const std::string&) {})).and_then([&] {
        return agree_on_data(run.datasets, training.strategy.join, *run.group.communicator);
      });
  auto agreed = order_sizes.map([](const auto& /*sizes*/) {});
  if (agreed && !run.script_digest.empty()) agreed = agree_on_script(run.script_digest, *run.group.communicator);
  if (!agreed) {
    const bool is_peer = agreed.error().kind == ErrorKind::cancelled;
    return lost(link, is_peer ? Stage::step : Stage::data, agreed.error());
  }
  if (auto shared = dist::share_processors(group, beginning.threads, *run.group.communicator); !shared)
    return lost(link, Stage::step, shared.error());
  if (device.is_cuda()) {
    auto seats = gather_seats(node_name(environment), group, *run.group.communicator);
    if (!seats) return lost(link, Stage::step, seats.error());
    run.seats = std::move(*seats);
  }

  const auto deadline = dist::collective_deadline(*deadlines, run.group.world_size);
  const strategy::WaitForWork wait = [&link, deadline](const c10::intrusive_ptr<c10d::Work>& work,
                                                       std::string_view what) {
    return dist::wait_or_fail(work, link, deadline, what);
  };
  strategy::WaitForWork follow;
  if (!device.is_cpu()) {
    run.in_flight.emplace(device, link, deadline);
    follow = [&in_flight = *run.in_flight](const c10::intrusive_ptr<c10d::Work>& work, std::string_view what) {
      return in_flight.follow(work, what);
    };
  }
  auto process_sets = connect_process_sets(*run.module, run.group, run.in_flight ? follow : wait);
  if (!process_sets) return not_connected(link, process_sets.error());
  run.process_sets = std::move(*process_sets);
  if (training.task != api::Task::fit) {
    // Nothing is trained: the exchange then only sends the weights, and keeps no memory for gradients. So every
    // strategy is like ddp here, but `single` and `dp`, which refuse several ranks.
    for (const auto& [name, parameter] : named_parameters(*run.module)) parameter.set_requires_grad(false);
    const bool is_single =
        training.strategy.name == api::StrategyName::single || training.strategy.name == api::StrategyName::dp;
    run.replicas = TRY(make_replicas(opened, models, run, group, patience));
    const auto gradients =
        strategy::make_gradient_sync(named_parameters(*run.module), named_buffers(*run.module), run.group, wait, follow,
                                     is_single ? training.strategy : api::StrategySpec{});
    return run_evaluation(run, *gradients, link, group.attempt, device, run.in_flight ? follow : wait, patience);
  }
  auto timeline = open_timeline(run.job, run.clock, group.attempt, run.group.rank);
  if (!timeline) return end_rank(Stage::spec, timeline.error());
  run.timeline = std::move(*timeline);
  const auto spec = configure_ddp(*run.module, run.group, training.strategy);
  if (!spec) return not_connected(link, spec.error());
  run.turns = open_turns(*run.module, training.optimizer, [&](NamedTensors parameters, NamedTensors buffers) {
    return strategy::make_gradient_sync(std::move(parameters), std::move(buffers), run.group, wait, follow, *spec,
                                        run.timeline ? &run.timeline->timeline() : nullptr,
                                        run.group.world_size > 1 ? comm_hook_of(run) : nullptr);
  });
  run.replicas = TRY(make_replicas(opened, models, run, group, patience));
  run.checkpointer = TRY(open_checkpoints(run, group, node_name(environment), patience));
  run.snapshots = TRY(open_snapshots(run, group.attempt));
  run.log_files = TRY(open_log_files(run, group.attempt));
  run.tracer = TRY(open_tracer(run, group.attempt, device));
  auto sample_record = TRY(open_sample_record(run.job, group));
  seed_for_training(training.seed, run.group.rank);
  data::Sampling sampling;
  if (run.datasets.train != nullptr)
    sampling = make_sampling(training, *run.datasets.train, run.datasets.sampler.get(), *order_sizes);
  if (run.group.rank == 0)
    log_beginning(
        training, run.datasets, sampling,
        {.world_size = run.group.world_size, .device = device, .replicas = run.replicas ? run.replicas->count() : 1});
  run.trainer.emplace(
      TrainerParts{.training = training,
                   .checkpoint_every = run.job.checkpoint ? run.job.checkpoint->every : api::Every{},
                   .copies_every = copies_every(run.job),
                   .when_busy = run.job.checkpoint ? run.job.checkpoint->when_busy : api::WhenBusy::skip,
                   .checkpoint_spec = run.job.checkpoint ? &*run.job.checkpoint : nullptr,
                   .weights_s3 = read_options(run.job),
                   .start_patience = patience,
                   .module = *run.module,
                   .replicas = run.replicas.get(),
                   .train_data = run.datasets.train.get(),
                   .sampling = sampling,
                   .train_streams = run.datasets.iterable_train.get(),
                   .validation_data = run.datasets.validation.get(),
                   .turns = run.turns,
                   .group = run.group,
                   .link = link,
                   .wait = wait,
                   .in_flight = run.in_flight ? &*run.in_flight : nullptr,
                   .checkpointer = run.checkpointer.get(),
                   .snapshots = run.snapshots.get(),
                   .log_files = run.log_files.get(),
                   .tracer = run.tracer.get(),
                   .sample_record = std::move(sample_record),
                   .after_first_step =
                       [&run, &log = beginning.nccl_log] {
                         // NCCL's log does not say in which process group a link's ranks have their numbers.
                         if (!run.seats.empty() && !run.group.pods) report_nccl_links(log, run.group.rank, run.seats);
                       },
                   .process_sets = &run.process_sets,
                   .device = device,
                   .node = node_name(environment),
                   .clock = run.clock});
  return run.trainer->run();
}

}  // namespace
}  // namespace train

void run_rank(const Models& models) {
  const rank::Environment environment = rank::process_environment();
  train::set_up_logging(environment);
  // Gloo writes to the sockets of its peers without MSG_NOSIGNAL. The rank is to report a lost peer, not to die of it.
  std::signal(SIGPIPE, SIG_IGN);
  auto group = rank::parse_group_environment(environment);
  // These change the environment, which the link's thread may read, and therefore come before the link is opened.
  // train() reports a job that cannot be read.
  const auto job = train::read_job(environment);
  if (job && job->training.deterministic) dist::make_cublas_deterministic();
  const dist::Threads threads = group ? dist::apply_process_settings(*group) : dist::Threads::users;
  const dist::NcclLog nccl_log;
  const std::unique_ptr<rank::RankLink> link = rank::open_rank_link();
  train::Run run;
  rank::RankEnd ended;
  try {
    const auto outcome =
        group ? train::train(
                    models,
                    {.environment = environment, .group = std::move(*group), .threads = threads, .nccl_log = nccl_log},
                    *link, run)
              : train::end_rank(train::Stage::rendezvous, group.error());
    ended = outcome ? *outcome : outcome.error();
  } catch (...) {
    // An exception after the loss of a peer often looks like a failure of this rank.
    ended = link->group_failure().value_or(
        train::end_of_exception(std::current_exception(), run.device_name, train::failed_call()));
  }
  const Instant deadline = std::chrono::steady_clock::now() + train::writing_patience(ended.exit_code);
  train::finish_log_files(run, deadline);
  train::finish_snapshots(run, deadline);
  train::finish_traces(run, ended, deadline);
  train::log_end(ended);
  link->exit(ended);
  std::abort();  // g++ 12 forgets [[noreturn]] when it devirtualises the call.
}

}  // namespace trainyard
