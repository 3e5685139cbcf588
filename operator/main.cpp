#include <fmt/format.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include "common/clock.hpp"
#include "common/logging.hpp"
#include "operator/control/elector.hpp"
#include "operator/control/write_gate.hpp"
#include "operator/kube/config_sources.hpp"
#include "operator/kube/http_api.hpp"
#include "operator/manager/controller.hpp"
#include "operator/manager/health_server.hpp"
#include "operator/manager/metrics.hpp"
#include "operator/manifest/request_token.hpp"

namespace trainyard {
namespace {

using std::chrono::milliseconds;

struct Flags {
  std::string kubeconfig;
  std::vector<std::string> namespaces;
  manifest::Settings settings;
  std::string listen = "0.0.0.0:8080";
  std::string election_namespace;
  int workers = 4;
  int api_silence_max_seconds = 300;
  logging::Level log_level = logging::Level::info;
};

void declare_flags(CLI::App& app, Flags& flags) {
  const std::map<std::string, logging::Level> levels{{"debug", logging::Level::debug},
                                                     {"info", logging::Level::info},
                                                     {"warn", logging::Level::warn},
                                                     {"error", logging::Level::error}};
  app.add_option("--kubeconfig", flags.kubeconfig,
                 "Kubeconfig of the API server; without it, the pod's service account");
  app.add_option("--namespaces", flags.namespaces,
                 "Run only jobs in these namespaces (comma-separated); without it, in all")
      ->delimiter(',');
  app.add_option("--worker-image-cpu", flags.settings.worker_image_cpu,
                 "Image of jobs that name no container and use no GPU");
  app.add_option("--worker-image-cuda", flags.settings.worker_image_cuda,
                 "Image of jobs that name no container and use GPUs");
  app.add_option("--worker-pull-secret", flags.settings.image_pull_secrets,
                 "Secret to pull these images with; may be repeated");
  const std::map<std::string, manifest::UserIds> user_ids{{"fixed", manifest::UserIds::fixed},
                                                          {"cluster", manifest::UserIds::cluster}};
  app.add_option("--user-ids", flags.settings.user_ids,
                 "Chooses the user and group ids of pods whose template names none: fixed (the operator: 65532) "
                 "or cluster (the cluster, as OpenShift does; the pods name none)")
      ->transform(CLI::CheckedTransformer(user_ids));
  app.add_option("--listen", flags.listen, "Address that serves /healthz, /readyz and /metrics")->capture_default_str();
  app.add_option("--leader-election-namespace", flags.election_namespace,
                 "Namespace of the Lease; without it, the pod's own");
  app.add_option("--workers", flags.workers, "Jobs that are worked on at a time")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--api-silence-max", flags.api_silence_max_seconds,
                 "Seconds without any answer from the API server after which /healthz fails; 0: it never fails")
      ->check(CLI::Range(0, 86'400))
      ->capture_default_str();
  app.add_option("--log-level", flags.log_level, "debug, info, warn or error")
      ->transform(CLI::CheckedTransformer(levels));
}

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

/// A different name at each start, so that a restarted container does not take its predecessor's lease for its own.
std::string make_holder_name() {
  std::random_device random;
  return fmt::format("{}_{:08x}", host_name(), random());
}

manager::ControllerOptions controller_options(const Flags& flags) {
  manager::ControllerOptions options;
  options.namespaces = flags.namespaces;
  options.is_watching_nodes = flags.namespaces.empty();
  options.workers = flags.workers;
  options.reconciler.settings = flags.settings;
  options.reconciler.settings.request_key = manifest::make_request_key();
  options.reconciler.instance = host_name();
  return options;
}

/// One process of the operator: takes part in the election, and works on jobs while it leads.
class Operator {
 public:
  Operator(kube::Api& api, kube::Api& election_api, const Flags& flags, std::string election_namespace)
      : options_{controller_options(flags)},
        elector_{election_api, clock_, {.name_space = std::move(election_namespace), .holder = make_holder_name()}},
        gate_{api, [this] { return !is_stopping_ && elector_.is_leader(); }} {}

  /// Blocks until `stop` is requested.
  void run(const std::stop_token& stop) {
    // A plan in progress ends after its current request; the next leader carries on.
    const std::stop_callback end_writing{stop, [this] { is_stopping_ = true; }};
    while (elector_.wait_until_leader(stop)) {
      set_controller(std::make_shared<manager::Controller>(gate_, clock_, options_, counters_));
      elector_.wait_until_not_leader(stop);
      if (!stop.stop_requested())
        logging::warn("no longer leading: nothing is written until this process holds the lease again");
      set_controller(nullptr);
    }
  }

  [[nodiscard]] bool is_ready() const {
    const auto controller = this->controller();
    return controller ? controller->is_synced() : elector_.has_seen_lease();
  }

  [[nodiscard]] manager::OperatorMetrics metrics() const {
    manager::OperatorMetrics metrics{.is_leader = elector_.is_leader(),
                                     .reconciles = counters_.reconciles,
                                     .reconcile_errors = counters_.reconcile_errors};
    if (const auto controller = this->controller()) {
      metrics.queue_size = static_cast<std::int64_t>(controller->queue_size());
      metrics.watch_restarts = controller->watch_restarts();
      metrics.jobs_by_phase = controller->jobs_by_phase();
    }
    return metrics;
  }

 private:
  std::shared_ptr<manager::Controller> controller() const {
    const std::scoped_lock lock{mutex_};
    return controller_;
  }
  void set_controller(std::shared_ptr<manager::Controller> controller) {
    {
      const std::scoped_lock lock{mutex_};
      controller_.swap(controller);
    }
    // Destroys the old controller outside of the lock, because it waits for requests in flight.
    controller.reset();
  }

  const SystemClock clock_;
  const manager::ControllerOptions options_;
  manager::Counters counters_;
  std::atomic<bool> is_stopping_ = false;
  control::Elector elector_;
  control::WriteGate gate_;
  mutable std::mutex mutex_;                         // guards controller_
  std::shared_ptr<manager::Controller> controller_;  // ends before the elector gives the lease back
};

int run(const Flags& flags) {
  const auto give_up = [](const Error& error) {
    logging::error("the operator cannot start", {{"error", error.message}});
    return 1;
  };
  const auto config = flags.kubeconfig.empty() ? kube::load_service_account(kube::service_account_mount())
                                               : kube::load_kubeconfig(flags.kubeconfig);
  if (!config) return give_up(config.error());
  const auto api = kube::HttpApi::make(*config, {.connections_max = 24});
  if (!api) return give_up(api.error());
  const auto election_api =
      kube::HttpApi::make(*config, {.connections_max = 1, .request_deadline = milliseconds{1'000}});
  if (!election_api) return give_up(election_api.error());
  std::string election_namespace = flags.election_namespace.empty() ? config->name_space : flags.election_namespace;
  if (election_namespace.empty()) election_namespace = "default";

  Operator process{**api, **election_api, flags, std::move(election_namespace)};
  const auto health = manager::HealthServer::start(
      flags.listen, {.is_live =
                         [&] {
                           const Instant last_answer = std::max((*api)->last_answer(), (*election_api)->last_answer());
                           return manager::is_heard(last_answer, SystemClock{}.instant(),
                                                    std::chrono::seconds{flags.api_silence_max_seconds});
                         },
                     .is_ready = [&] { return process.is_ready(); },
                     .metrics = [&] { return metrics_page(process.metrics()); }});
  if (!health) return give_up(health.error());
  logging::info("the operator has started", {{"server", config->host}, {"port", (*health)->port()}});

  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  int signal = 0;
  {
    std::jthread worker{[&](const std::stop_token& stop) { process.run(stop); }};
    sigwait(&signals, &signal);
    logging::info("stopping", {{"signal", signal}});
  }
  return 0;
}

}  // namespace
}  // namespace trainyard

int main(int argc, char** argv) {
  CLI::App app{"Runs TrainingJobs: creates their pods, watches each group as one, restarts it as one."};
  trainyard::Flags flags;
  trainyard::declare_flags(app, flags);
  CLI11_PARSE(app, argc, argv);
  trainyard::logging::set_up(trainyard::logging::Format::json, flags.log_level);
  // Two malloc arenas instead of glibc's eight for each core, because replies of the API server come and go on every
  // thread. Large blocks get pages of their own, which return to the system when freed. If the limit were unset, glibc
  // would raise it to the largest block freed so far.
  mallopt(M_ARENA_MAX, 2);
  mallopt(M_MMAP_THRESHOLD, 128 * 1024);
  mallopt(M_TRIM_THRESHOLD, 256 * 1024);
  // Blocks the signals before any thread starts, so that only sigwait gets them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return trainyard::run(flags);
}
