#include "local/process_kubelet.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "api/contract.hpp"
#include "common/backoff.hpp"
#include "common/check.hpp"
#include "common/logging.hpp"
#include "common/text.hpp"
#include "common/try.hpp"
#include "local/gpus.hpp"
#include "local/log_files.hpp"
#include "local/pod_status.hpp"
#include "local/remote_program.hpp"

namespace trainyard::local {
namespace {

constexpr std::string_view loopback = "127.0.0.1";
constexpr std::int64_t grace_seconds_default = 30;  // Kubernetes'.
/// A kubelet waits this long before it restarts a sidecar that ends again and again. The first restart comes at once.
constexpr Backoff sidecar_backoff{
    .initial = std::chrono::seconds{10}, .max = std::chrono::minutes{5}, .jitter_share = 0};

/// The last `bytes_max` bytes of a file; empty when there is no such file.
std::string end_of_file(const std::filesystem::path& path, std::size_t bytes_max) {
  std::ifstream file{path, std::ios::binary | std::ios::ate};
  if (!file) return {};
  const auto size = static_cast<std::size_t>(file.tellg());
  std::string text(std::min(size, bytes_max), '\0');
  file.seekg(static_cast<std::streamoff>(size - text.size()));
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  return text;
}

std::int64_t gpus_of_pod(const json& pod) {
  std::int64_t sum = 0;
  for (const auto& container : pod.at("spec").value("containers", json::array())) sum += gpus_of(container);
  return sum;
}

}  // namespace

Variables remote_inherited(const Variables& inherited) {
  Variables kept;
  for (const auto& entry : inherited) {
    for (const std::string_view prefix : {"TRAINYARD_", "NCCL_", "GLOO_", "TORCH_", "OMP_"}) {
      if (entry.first.starts_with(prefix)) kept.insert(entry);
    }
  }
  return kept;
}

struct ProcessKubelet::ContainerRun {
  json spec;
  ContainerState state;
  std::filesystem::path output_log;
  std::filesystem::path error_log;  // Equal to output_log unless the streams are separate.
  std::filesystem::path termination_log;
  std::vector<std::string> gpus;
  std::optional<ProcessGroup> process;
  std::optional<Instant> restart_at;  // Set for a sidecar that has ended.

  /// True if the container is to be started: for the first time, or again as a sidecar.
  bool is_fresh() const { return !state.end && !process && state.waiting_message.empty(); }
};

struct ProcessKubelet::PodRun {
  json object;  // The pod as it was when it started.
  PodState state;
  std::vector<ContainerRun> init_containers;
  std::vector<ContainerRun> containers;
  bool is_stopping = false;
  bool are_sidecars_ending = false;
  std::optional<Instant> kill_at;
  bool is_status_behind = true;  // The status in the API is older than `state`.

  template <typename Function>
  void for_each_container(Function function) {
    for (auto& container : init_containers) function(container);
    for (auto& container : containers) function(container);
  }
  bool is_running() const {
    const auto runs = [](const ContainerRun& container) { return container.process.has_value(); };
    return std::ranges::any_of(init_containers, runs) || std::ranges::any_of(containers, runs);
  }
  /// True while a container other than a sidecar runs.
  bool has_live_worker() const {
    const auto works = [](const ContainerRun& container) {
      return container.process.has_value() && !container.state.is_sidecar;
    };
    return std::ranges::any_of(init_containers, works) || std::ranges::any_of(containers, works);
  }
};

ProcessKubelet::ProcessKubelet(MemoryApi& api, const Clock& clock, ProcessKubeletOptions options)
    : api_{api}, clock_{clock}, options_{std::move(options)}, wake_up_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)} {
  check(static_cast<bool>(wake_up_), "the system gives an eventfd");
  watcher_ = std::jthread{[this](const std::stop_token& stop) { watch_pods(stop); }};
  owner_ = std::jthread{[this](const std::stop_token& stop) { run(stop); }};
}

ProcessKubelet::~ProcessKubelet() {
  owner_.request_stop();
  wake();
}

void ProcessKubelet::wake() const {
  check(::eventfd_write(wake_up_.get(), 1) == 0, "an eventfd takes a count");
}

void ProcessKubelet::watch_pods(const std::stop_token& stop) {
  // An event only wakes the owner, which lists all pods. So a watch that ends for any reason is simply started again.
  while (!stop.stop_requested()) {
    const auto ended = api_.watch(
        kube::pods, {}, [this](const kube::WatchEvent&) { wake(); }, stop);
    if (!ended && ended.error().kind == ErrorKind::gone) wake();
  }
}

void ProcessKubelet::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    sync_pods();
    for (auto& [uid, pod] : pods_) handle_events(*pod);
    wait_for_news();
  }
  for (auto& [uid, pod] : pods_) {
    pod->for_each_container([](ContainerRun& container) {
      if (container.process) container.process->kill();
    });
  }
  pods_.clear();  // Kills and waits for each.
}

void ProcessKubelet::wait_for_news() const {
  std::vector<pollfd> waited{{.fd = wake_up_.get(), .events = POLLIN, .revents = 0}};
  std::optional<Instant> deadline;
  for (const auto& [uid, pod] : pods_) {
    if (pod->is_status_behind) return;
    pod->for_each_container([&](const ContainerRun& container) {
      if (container.process) waited.push_back({.fd = container.process->event_fd(), .events = POLLIN, .revents = 0});
      if (container.restart_at) deadline = std::min(deadline.value_or(*container.restart_at), *container.restart_at);
    });
    if (pod->kill_at) deadline = std::min(deadline.value_or(*pod->kill_at), *pod->kill_at);
  }
  int timeout_ms = -1;
  if (deadline) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - clock_.instant());
    timeout_ms = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
  }
  ::poll(waited.data(), waited.size(), timeout_ms);
  eventfd_t count = 0;
  ::eventfd_read(wake_up_.get(), &count);
}

void ProcessKubelet::sync_pods() {
  const auto listed = api_.list(kube::pods, {});
  check(listed.has_value(), "listing in memory without selectors does not fail");
  std::set<std::string> present;
  for (const auto& pod : listed->items) {
    present.insert(pod.at("metadata").at("uid"));
    sync_pod(pod);
  }
  // Pods that are no longer in the API were deleted without grace.
  std::erase_if(pods_, [&](const auto& entry) { return !present.contains(entry.first); });
}

void ProcessKubelet::sync_pod(const json& pod) {
  const json& metadata = pod.at("metadata");
  const std::string node = pod.at("spec").value("nodeName", "");
  const auto known = pods_.find(metadata.at("uid"));
  if (known != pods_.end()) {
    if (metadata.contains("deletionTimestamp")) stop_pod(*known->second, metadata);
    return;
  }
  if (metadata.contains("deletionTimestamp")) {
    // Bound, and deleted before it was started.
    if (node == options_.node_name) {
      const auto removed = api_.remove(kube::pods, metadata.value("namespace", ""), metadata.value("name", ""),
                                       {.uid = metadata.at("uid"), .grace_period_seconds = 0});
      if (!removed)
        logging::debug("pod was gone already", {{"pod", metadata.at("name")}, {"error", removed.error().message}});
    }
    return;
  }
  if (node.empty()) schedule(pod);
  if (node == options_.node_name && pod.value("/status/phase"_json_pointer, "Pending") == "Pending") start_pod(pod);
}

void ProcessKubelet::schedule(const json& pod) {
  const json& metadata = pod.at("metadata");
  const auto free = static_cast<std::int64_t>(free_gpus().size());
  const auto wanted = gpus_of_pod(pod);
  Result<json> written;
  if (wanted <= free) {
    // The watch reports the binding, which leads to start_pod().
    written =
        api_.bind_pod(metadata.value("namespace", ""), metadata.at("name").get<std::string>(), options_.node_name);
  } else {
    const json status = unschedulable_status(
        fmt::format("0/1 nodes are available: 1 Insufficient nvidia.com/gpu ({} wanted, {} free)", wanted, free));
    if (pod.value("status", json::object()) == status) return;
    written =
        api_.update_status(kube::pods, metadata.value("namespace", ""), {{"metadata", metadata}, {"status", status}});
  }
  if (!written)
    logging::debug("pod changed meanwhile", {{"pod", metadata.at("name")}, {"error", written.error().message}});
}

std::vector<std::string> ProcessKubelet::free_gpus() const {
  std::vector<std::string> taken;
  for (const auto& [uid, pod] : pods_) {
    pod->for_each_container([&](const ContainerRun& container) {
      if (!container.state.end) taken.insert(taken.end(), container.gpus.begin(), container.gpus.end());
    });
  }
  return without_taken(options_.gpus.value_or(std::vector<std::string>{}), taken);
}

void ProcessKubelet::start_pod(const json& pod) {
  auto run = std::make_unique<PodRun>();
  run->object = pod;
  const RankSeat* seat = seat_of(pod);
  const std::string address = seat != nullptr && seat->is_remote ? seat->address : std::string{loopback};
  run->object["status"]["podIP"] = address;
  run->object["status"]["hostIP"] = address;
  run->state = {.start_time = clock_.now(), .host_ip = address, .pod_ip = address};
  std::vector<std::string> gpus = free_gpus();
  const auto add = [&](const json& spec, std::vector<ContainerRun>& containers) {
    ContainerRun& container = containers.emplace_back();
    container.spec = spec;
    container.state.name = spec.value("name", "");
    container.state.image = spec.value("image", "");
    const auto log_of = [&](LogStream stream) {
      return container_log(options_.log_folder, pod, container.state.name,
                           options_.has_separate_streams ? stream : LogStream::both);
    };
    container.output_log = log_of(LogStream::output);
    container.error_log = log_of(LogStream::error);
    container.termination_log = container.output_log;
    container.termination_log.replace_extension(".termination");
    const auto count = std::min(gpus.size(), static_cast<std::size_t>(gpus_of(spec)));
    container.gpus.assign(gpus.begin(), gpus.begin() + static_cast<std::ptrdiff_t>(count));
    gpus.erase(gpus.begin(), gpus.begin() + static_cast<std::ptrdiff_t>(count));
  };
  for (const auto& spec : pod.at("spec").value("initContainers", json::array())) {
    add(spec, run->init_containers);
    run->init_containers.back().state.is_sidecar = spec.value("restartPolicy", "") == "Always";
  }
  for (const auto& spec : pod.at("spec").value("containers", json::array())) add(spec, run->containers);
  start_next_containers(*run);
  pods_.emplace(pod.at("metadata").at("uid"), std::move(run));
}

void ProcessKubelet::start_next_containers(PodRun& pod) {
  if (pod.is_stopping || pod.are_sidecars_ending) return;
  for (auto& container : pod.init_containers) {
    if (container.state.is_sidecar) {
      start_or_restart_sidecar(pod, container);
      if (container.state.started_at) continue;
      return;  // The next container starts when this one runs.
    }
    if (container.state.end && container.state.end->exit_code == 0) continue;
    if (container.is_fresh()) start_container(pod, container);
    return;  // The next container starts when this one has succeeded.
  }
  for (auto& container : pod.containers) {
    if (container.is_fresh()) start_container(pod, container);
  }
}

void ProcessKubelet::start_or_restart_sidecar(PodRun& pod, ContainerRun& sidecar) {
  ContainerState& state = sidecar.state;
  if (state.end) {
    sidecar.restart_at = clock_.instant() + backoff_delay(sidecar_backoff, state.restarts, 0);
    state.waiting_reason = "CrashLoopBackOff";
    state.waiting_message =
        fmt::format("sidecar {} ended with exit code {} and is restarted", state.name, state.end->exit_code);
    state.started_at.reset();
    state.last_end = std::exchange(state.end, std::nullopt);
  }
  if (sidecar.restart_at) {
    if (clock_.instant() < *sidecar.restart_at) return;
    sidecar.restart_at.reset();
    state.waiting_message.clear();
    ++state.restarts;
  }
  if (sidecar.is_fresh()) start_container(pod, sidecar);
}

void ProcessKubelet::end_sidecars(PodRun& pod) {
  if (std::exchange(pod.are_sidecars_ending, true)) return;
  for (auto& sidecar : pod.init_containers) {
    sidecar.restart_at.reset();
    if (sidecar.process) sidecar.process->terminate();
  }
  const std::chrono::seconds grace{pod.object.at("spec").value("terminationGracePeriodSeconds", grace_seconds_default)};
  if (!pod.kill_at && pod.is_running()) pod.kill_at = clock_.instant() + grace;
}

/// nullptr: the pod runs on this machine, as all do where no hosts were named.
const RankSeat* ProcessKubelet::seat_of(const json& pod) const {
  const auto label = json::json_pointer{"/metadata/labels"} / std::string{contract::label_rank};
  const auto rank = parse_number<std::size_t>(pod.value(label, ""));
  return rank && *rank < options_.seats.size() ? &options_.seats[*rank] : nullptr;
}

Result<ProcessSpec> ProcessKubelet::resolve(const json& pod, const ContainerRun& container) const {
  const RankSeat* seat = seat_of(pod);
  const bool is_remote = seat != nullptr && seat->is_remote;
  ContainerContext context{.inherited = is_remote ? remote_inherited(options_.inherited) : options_.inherited,
                           .worker_program = options_.worker_program,
                           .termination_log = container.termination_log.string(),
                           .visible_gpus = options_.gpus ? std::optional{container.gpus} : std::nullopt,
                           .overrides = options_.overrides,
                           .volumes = options_.volumes,
                           .read_secret = [this](const std::string& name) -> Result<Variables> {
                             const auto found = options_.secrets.find(name);
                             if (found == options_.secrets.end())
                               return fail(ErrorKind::not_found, fmt::format("secret \"{}\" not found", name));
                             return found->second;
                           }};
  if (seat != nullptr) {
    for (const auto& [name, value] : seat->variables) context.overrides.insert_or_assign(name, value);
  }
  auto spec = TRY(resolve_container(pod, container.spec, context));
  if (!is_remote) return spec;
  RemoteProgram program{.host = seat->host,
                        .ssh_config = options_.ssh_config,
                        .working_directory = spec.working_directory,
                        .termination_log = container.termination_log.string(),
                        .arguments = std::move(spec.arguments),
                        .variables = {}};
  if (program.working_directory.empty()) program.working_directory = std::filesystem::current_path();
  for (const std::string& entry : spec.environment) {
    const auto equals = entry.find('=');
    program.variables.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  // They describe this machine.
  program.variables.erase("HOSTNAME");
  program.variables.erase(std::string{contract::env_termination_log});
  return process_of(program, options_.self_program, options_.inherited);
}

void ProcessKubelet::start_container(PodRun& pod, ContainerRun& container) {
  pod.is_status_behind = true;
  auto spec = resolve(pod.object, container);
  if (!spec) {
    container.state.waiting_reason = "CreateContainerConfigError";
    container.state.waiting_message = spec.error().message;
    return;
  }
  spec->output_path = container.output_log.string();
  spec->error_path = container.error_log.string();
  auto process = ProcessGroup::start(*spec);
  if (!process) return handle_event(container, ProcessNotStarted{process.error().message});
  container.process = *std::move(process);
}

void ProcessKubelet::stop_pod(PodRun& pod, const json& metadata) {
  const auto kill_at =
      clock_.instant() + std::chrono::seconds{metadata.value("deletionGracePeriodSeconds", std::int64_t{0})};
  if (!pod.is_stopping) {
    // Sidecars are stopped last: the other containers may need them until they end.
    pod.for_each_container([](ContainerRun& container) {
      if (container.process && !container.state.is_sidecar) container.process->terminate();
      container.restart_at.reset();
    });
  }
  // Called again at every event, so only a delete with less grace makes the end earlier.
  pod.kill_at = std::min(pod.kill_at.value_or(kill_at), kill_at);
  pod.is_status_behind |= !pod.is_stopping;
  pod.is_stopping = true;
}

void ProcessKubelet::handle_events(PodRun& pod) {
  pod.for_each_container([&](ContainerRun& container) {
    while (container.process) {
      const auto event = container.process->next_event();
      if (!event) break;
      handle_event(container, *event);
      pod.is_status_behind = true;
    }
  });
  if (pod.kill_at && clock_.instant() >= *pod.kill_at) {
    pod.kill_at.reset();
    pod.for_each_container([](ContainerRun& container) {
      if (container.process) container.process->kill();
    });
  }
  const bool is_restart_due = std::ranges::any_of(pod.init_containers, [&](const ContainerRun& container) {
    return container.restart_at && clock_.instant() >= *container.restart_at;
  });
  if (!pod.is_status_behind && !is_restart_due) return;
  start_next_containers(pod);
  update_state(pod);
  if (has_only_sidecars_left(pod.state) || (pod.is_stopping && !pod.has_live_worker())) end_sidecars(pod);
  write_status(pod);
  // A sidecar that could not be started has ended at once, and no process event follows.
  const bool has_ended_sidecar = std::ranges::any_of(pod.init_containers, [](const ContainerRun& container) {
    return container.state.is_sidecar && container.state.end;
  });
  pod.is_status_behind |= has_ended_sidecar && !pod.is_stopping && !pod.are_sidecars_ending;
}

void ProcessKubelet::update_state(PodRun& pod) {
  const auto states_of = [](const std::vector<ContainerRun>& containers) {
    std::vector<ContainerState> states;
    for (const auto& container : containers) states.push_back(container.state);
    return states;
  };
  pod.state.init_containers = states_of(pod.init_containers);
  pod.state.containers = states_of(pod.containers);
}

void ProcessKubelet::handle_event(ContainerRun& container, const ProcessEvent& event) {
  if (std::holds_alternative<ProcessStarted>(event)) {
    container.state.started_at = clock_.now();
    return;
  }
  container.process.reset();
  ContainerEnd& end = container.state.end.emplace();
  end.finished_at = clock_.now();
  if (const auto* refused = std::get_if<ProcessNotStarted>(&event)) {
    end.exit_code = 128;
    end.reason = "StartError";
    end.message = refused->message;
    return;
  }
  const auto& ended = std::get<ProcessEnded>(event);
  end.exit_code = ended.exit_code;
  end.signal = ended.signal;
  end.reason = ended.exit_code == 0 ? "Completed" : "Error";
  end.message = end_of_file(container.termination_log, contract::termination_message_bytes_max);
  if (end.message.empty() && end.exit_code != 0 &&
      container.spec.value("terminationMessagePolicy", "") == "FallbackToLogsOnError") {
    end.message = last_words(end_of_file(container.error_log, last_words_bytes_max));
  }
}

void ProcessKubelet::write_status(PodRun& pod) {
  pod.is_status_behind = false;
  const json& metadata = pod.object.at("metadata");
  const std::string name_space = metadata.value("namespace", "");
  const json identity{{"name", metadata.at("name")}, {"uid", metadata.at("uid")}};
  const auto written =
      api_.update_status(kube::pods, name_space, {{"metadata", identity}, {"status", pod_status(pod.state)}});
  if (!written) {  // The pod was deleted without grace meanwhile: the next sync_pods() ends it.
    logging::debug("pod status not written", {{"pod", metadata.at("name")}, {"error", written.error().message}});
    return;
  }
  if (!pod.is_stopping || pod.is_running()) return;
  const auto removed = api_.remove(kube::pods, name_space, metadata.at("name").get<std::string>(),
                                   {.uid = metadata.at("uid"), .grace_period_seconds = 0});
  if (!removed)
    logging::debug("pod was gone already", {{"pod", metadata.at("name")}, {"error", removed.error().message}});
}

}  // namespace trainyard::local
