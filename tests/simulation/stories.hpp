#pragma once

#include <string>
#include <vector>

#include "tests/simulation/simulation.hpp"

namespace trainyard::simulation {

/// A course of events of a job, from kubectl apply to its end. Each step waits until the cluster shows the result of
/// the step before, so that the end is the same however the operator is disturbed.
struct Story {
  std::string name;
  std::function<void(Simulation&)> tell;
};

/// Create, restart by each kind of loss, suspend and resume, failure, deletion with and without checkpoints, edit,
/// checkpoints on request.
[[nodiscard]] std::vector<Story> all_stories();

void PrintTo(const Story& story, std::ostream* stream);

/// The part of a story's end that must not depend on disturbances.
struct Outcome {
  api::Phase phase = api::Phase::none;
  std::string reason;
  std::int64_t attempt = 0;
  std::int64_t restart_count = 0;
  api::RestartCounts restarts;
  std::vector<std::string> records;     ///< "1 Application rank 1 exit 1"
  std::vector<std::string> conditions;  ///< Those that are true.
  std::vector<std::string> requests;    ///< "suspend-2 Done 12"
  std::vector<std::string> pods;
  std::vector<std::string> services;  ///< "smoke-c0de of attempt 2"
  bool operator==(const Outcome&) const = default;
};

[[nodiscard]] Outcome outcome_of(Simulation& simulation);
/// Checks what must hold of every story, however it was disturbed.
void expect_sound(Simulation& simulation);
/// Plays a job whose worker lies, from kubectl apply over a failure and a suspension to its success.
void live_with_lies(Simulation& simulation, std::uint64_t seed);
/// Plays `story` once; sets `calls` to the number of its API calls.
[[nodiscard]] Outcome outcome_undisturbed(const Story& story, std::int64_t* calls = nullptr);

struct Undisturbed {
  Outcome outcome;
  std::int64_t calls = 0;  ///< Of the API.
};
/// Plays each story once, in order.
[[nodiscard]] std::vector<Undisturbed> play_undisturbed(const std::vector<Story>& stories);
void PrintTo(const Outcome& outcome, std::ostream* stream);

}  // namespace trainyard::simulation
