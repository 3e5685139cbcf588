#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "common/clock.hpp"
#include "common/file_descriptor.hpp"
#include "local/container.hpp"
#include "local/log_files.hpp"
#include "local/memory_api.hpp"

namespace trainyard::local {

struct ProcessKubeletOptions {
  std::string node_name = "local";
  std::filesystem::path log_folder;
  bool has_separate_streams = false;  ///< Standard output and error have separate log files (log_files.hpp).
  Variables inherited;                ///< See ContainerContext.
  Variables overrides;                ///< See ContainerContext.
  std::string worker_program;         ///< See ContainerContext.
  std::map<std::string, Variables> secrets;
  Variables volumes;  ///< See ContainerContext.
  /// The GPUs to assign, by their names for CUDA_VISIBLE_DEVICES; a container that asks for none sees none. Not set: no
  /// GPUs are assigned, and every container sees the GPUs that this process sees.
  std::optional<std::vector<std::string>> gpus;
  /// Where each rank runs; empty: all on this machine. A rank of another machine gets no variable of `inherited` but
  /// those of remote_inherited().
  std::vector<RankSeat> seats;
  std::string ssh_config;    ///< See RemoteProgram.
  std::string self_program;  ///< Path of a program whose main() knows remote_command (remote_program.hpp).
};

/// The variables of `inherited` that ranks of other machines get too: settings of the worker and of its libraries, and
/// nothing that describes this machine.
[[nodiscard]] Variables remote_inherited(const Variables& inherited);

/// The scheduler and kubelet of this machine as a cluster: binds pods, runs their containers as child processes (init
/// containers one after the other), and writes their status as a kubelet does. Containers are not restarted, except for
/// sidecars (init containers with restartPolicy Always). Sidecars run beside the containers, are restarted when they
/// end, and get a SIGTERM once the containers have ended.
///
/// One thread owns all children, which end with it (ProcessGroup). The destructor kills what still runs and waits for
/// its end.
class ProcessKubelet {
 public:
  /// `api` and `clock` must outlive the kubelet.
  ProcessKubelet(MemoryApi& api, const Clock& clock, ProcessKubeletOptions options);
  ~ProcessKubelet();
  ProcessKubelet(const ProcessKubelet&) = delete;
  ProcessKubelet& operator=(const ProcessKubelet&) = delete;

 private:
  struct PodRun;
  struct ContainerRun;

  void run(const std::stop_token& stop);
  void watch_pods(const std::stop_token& stop);
  void wake() const;
  void wait_for_news() const;

  void sync_pods();
  void sync_pod(const json& pod);
  void schedule(const json& pod);
  void start_pod(const json& pod);
  void start_next_containers(PodRun& pod);
  void start_or_restart_sidecar(PodRun& pod, ContainerRun& sidecar);
  void end_sidecars(PodRun& pod);
  void start_container(PodRun& pod, ContainerRun& container);
  void stop_pod(PodRun& pod, const json& metadata);
  void handle_events(PodRun& pod);
  void handle_event(ContainerRun& container, const ProcessEvent& event);
  static void update_state(PodRun& pod);
  void write_status(PodRun& pod);
  std::vector<std::string> free_gpus() const;
  const RankSeat* seat_of(const json& pod) const;
  Result<ProcessSpec> resolve(const json& pod, const ContainerRun& container) const;

  MemoryApi& api_;
  const Clock& clock_;
  const ProcessKubeletOptions options_;
  FileDescriptor wake_up_;                               // An eventfd, by which other threads wake the owner.
  std::map<std::string, std::unique_ptr<PodRun>> pods_;  // By UID. Used only by the owner thread.
  std::jthread watcher_;
  std::jthread owner_;  // Last: joins before the rest dies.
};

}  // namespace trainyard::local
