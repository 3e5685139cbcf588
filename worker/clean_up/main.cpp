// trainyard-clean-up: removes what a deleted job has saved. `trainyard-worker clean-up` executes it, as PID 1 of a pod.
#include <unistd.h>

#include <csignal>

#include "api/contract.hpp"
#include "checkpoint/run/store_options.hpp"
#include "common/logging.hpp"
#include "storage/store.hpp"
#include "worker/clean_up/task.hpp"
#include "worker/rank/end_report.hpp"

namespace {

using namespace trainyard;

void report_end(const rank::RankEnd& end, const rank::Environment& environment) {
  if (end.exit_code == contract::exit_success) {
    logging::info("cleaned up", {{"summary", end.message}});
  } else {
    logging::error("ended", {{"reason", end.reason}, {"exitCode", end.exit_code}, {"error", end.message}});
  }
  const auto written = rank::write_termination_message(environment, rank::make_termination_message(end, {}, {}));
  if (!written) logging::warn("termination message not written", {{"error", written.error().message}});
}

}  // namespace

int main() {
  // The kernel delivers to PID 1 only the signals that it handles. Nothing needs to be undone: the next clean-up pod
  // goes on from here.
  std::signal(SIGTERM, [](int) { _exit(contract::exit_preempted); });
  const rank::Environment environment = rank::process_environment();
  const bool is_json = environment(rank::env_log_format) == "json";
  logging::set_up(is_json ? logging::Format::json : logging::Format::text, logging::Level::info);
  const rank::RankEnd end = clean_up::run(environment, SystemClock{}, [](const api::CheckpointSpec& spec) {
    return storage::open_store(spec.uri, checkpoint::options_of(spec.s3));
  });
  report_end(end, environment);
  return end.exit_code;
}
