// A rank process that does not train but uses its link as a training would. The first argument chooses how:
//   train          reports a step every 20 ms; ends preempted on SIGTERM, and with the group's failure when it is
//                  broken; answers a request for a checkpoint with its step, and ends preempted if the request says so
//   no-progress    reports one step, then makes no progress
//   deaf           as train, but ignores SIGTERM and the failure of the group
//   fail [BYTES]   ends with exit_do_not_restart and a message of its own, or one of BYTES bytes
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "api/contract.hpp"
#include "worker/rank/rank_link.hpp"

int main(int argc, char** argv) {
  using namespace trainyard;
  const std::string mode = argc > 1 ? argv[1] : "train";
  const auto link = rank::open_rank_link();
  if (mode == "fail") {
    link->exit({.exit_code = contract::exit_do_not_restart,
                .reason = "InvalidData",
                .message = argc > 2 ? std::string(std::stoul(argv[2]), 'x') : "there is no data",
                .culprit = {}});
  }
  rank::RankProgress progress;
  progress.phase = "Training";
  progress.total_steps = 1'000'000;
  for (std::int64_t step = 1;; ++step) {
    progress.step = step;
    progress.loss = 1.0 / static_cast<double>(step);
    if (mode != "no-progress" || step == 1) link->report(progress);
    if (step == 1) {
      // After the first report: a test that stops this process now has a launcher that expects to hear from it.
      std::printf("linked rank is running\n");
      std::fflush(stdout);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
    if (mode == "deaf") continue;
    if (const auto failure = link->group_failure()) link->exit(*failure);
    const auto request = link->checkpoint_request();
    if (request && (!progress.checkpoint_request || progress.checkpoint_request->request != *request)) {
      progress.checkpoint_request = rank::RequestRecord{.request = *request,
                                                        .state = contract::RequestState::done,
                                                        .step = step,
                                                        .uri = "memory://step-" + std::to_string(step)};
      link->report(progress);
    }
    if (link->is_stop_requested() || (request && request->then == rank::Then::exit)) {
      link->exit({.exit_code = contract::exit_preempted,
                  .reason = "Preempted",
                  .message = "saved and stopped",
                  .culprit = {}});
    }
  }
}
