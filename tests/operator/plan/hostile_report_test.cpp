#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api/validation/validate.hpp"
#include "operator/plan/plan.hpp"
#include "operator/plan/progress_report.hpp"
#include "operator/plan/request_status.hpp"
#include "tests/builders/an_observed.hpp"

// A worker may write anything into /status, into its answers and into its termination message.

namespace trainyard::plan {
namespace {

using builders::a_job;
using builders::an_observed;
using builders::later;
using nlohmann::json;

struct Lie {
  const char* what;
  json report;
};

json long_text(std::size_t bytes) {
  return std::string(bytes, 'x');
}

std::vector<Lie> lies() {
  const std::string id = "r1";
  const auto saved = [](const char* field, json value) {
    json checkpoint{{"step", 9}, {"uri", "s3://m/step-9/g-1"}};
    checkpoint[field] = std::move(value);
    return json{{"step", 9}, {"checkpoint", checkpoint}};
  };
  const auto answered = [&](const char* field, json value) {
    json record{{"id", id}, {"state", "Done"}, {"step", 9}, {"uri", "s3://m/step-9/g-1"}};
    record[field] = std::move(value);
    return json{{"checkpointRequest", record}};
  };
  return {
      {"a URI beyond the schema's bound", saved("uri", long_text(2'100))},
      {"a URI of many bytes", saved("uri", long_text(60'000))},
      {"a time before all years", saved("time", "0000-01-01T00:00:00+23:59")},
      {"a time after all years", saved("time", "9999-12-31T23:59:59-23:59")},
      {"a long time", saved("time", "2026-01-01T00:00:00." + std::string(500, '0') + "Z")},
      {"the largest step", saved("step", INT64_MAX)},
      {"a step beyond 64 bits", saved("step", UINT64_MAX)},
      {"a save that took longer than time", saved("durationSeconds", 1.7e308)},
      {"a long error", {{"checkpointError", long_text(40'000)}}},
      {"an error of wide characters", {{"checkpointError", std::string(20'000, 'x') + "\u00e9\u20ac\U0001f600"}}},
      {"long words", {{"step", 0}, {"waitingFor", long_text(60'000)}}},
      {"a loss that only double can hold", {{"step", 1}, {"loss", 1.7e308}}},
      {"no number for a loss", {{"step", 1}, {"loss", nullptr}}},
      {"an absurd throughput", {{"step", 1}, {"samplesPerSecond", -1.7e308}}},
      {"absurd counts", {{"step", INT64_MAX}, {"totalSteps", INT64_MAX}, {"epoch", INT64_MAX}}},
      {"negative counts", {{"step", -1}, {"totalSteps", INT64_MIN}, {"epoch", -7}}},
      {"an end in a million years", {{"step", 1}, {"etaSeconds", 3.2e13}}},
      {"wrong types", {{"step", "9"}, {"loss", json::array()}, {"checkpoint", 7}, {"checkpointRequest", "done"}}},
      {"an answer with a long URI", answered("uri", long_text(2'100))},
      {"an answer with a long message", answered("message", long_text(60'000))},
      {"an answer with a long id", answered("id", long_text(2'000))},
      {"an answer with an absurd step", answered("step", INT64_MAX)},
  };
}

/// Expects that the API server accepts the next status of `observed`, and that it can be read back.
void expect_storable(const Observed& observed) {
  const Plan plan = make_plan(observed, later);
  const json status = api::to_json(plan.status.value_or(observed.job.status));
  for (const auto& violation : api::validate_status(status)) ADD_FAILURE() << api::to_string(violation);
  // Through text, as the server sends it back.
  const auto read = api::parse_status(json::parse(status.dump()));
  EXPECT_TRUE(read) << read.error().message;
}

Observed a_job_that_is_asked() {
  return an_observed(a_job().checkpoint()).with([](Observed& observed) {
    observed.job.metadata.annotations[std::string{checkpoint_request_annotation}] = "r1";
    observed.job.status.checkpoint_request = api::CheckpointRequest{.id = "r1", .time = builders::start};
  });
}

TEST(HostileReport, OfAPollFitsTheStatus) {
  for (const Lie& lie : lies()) {
    SCOPED_TRACE(lie.what);
    Observed observed = a_job_that_is_asked();
    observed.progress = read_progress_report(lie.report, 1, later);
    expect_storable(observed);
  }
}

TEST(HostileReport, InATerminationMessageFitsTheStatus) {
  for (const Lie& lie : lies()) {
    SCOPED_TRACE(lie.what);
    const json message{{"exitCode", 1}, {"reason", "Said"}, {"message", "so"}, {"progress", lie.report}};
    Observed observed = a_job_that_is_asked();
    observed.pods[0].phase = resource::PodPhase::failed;
    observed.pods[0].containers = {{.name = "worker",
                                    .terminated = resource::ContainerTermination{
                                        .exit_code = 1, .message = message.dump(), .finished_at = later}}};
    expect_storable(observed);
  }
}

TEST(HostileReport, OfTheEndItselfFitsTheStatus) {
  const std::vector<Lie> ends{
      {"a long sentence", {{"exitCode", 1}, {"message", long_text(60'000)}}},
      {"a long reason", {{"exitCode", 1}, {"reason", long_text(60'000)}}},
      {"a final word that is long", {{"exitCode", 93}, {"reason", long_text(60'000)}, {"message", long_text(60'000)}}},
      {"a culprit beyond all ranks", {{"exitCode", 90}, {"culprit", UINT64_MAX}, {"culpritExitCode", INT64_MAX}}},
      {"an absurd code", {{"exitCode", INT64_MAX}}},
  };
  for (const Lie& end : ends) {
    SCOPED_TRACE(end.what);
    expect_storable(an_observed(a_job().checkpoint()).ended(0, 1, end.report.dump()));
    expect_storable(an_observed(a_job().checkpoint()).ended(0, 1, long_text(60'000), std::string(60'000, 'r')));
  }
}

TEST(HostileReport, KeepsWhatIsGoodBesideWhatIsNot) {
  const auto report = read_progress_report(
      {{"step", 9}, {"checkpoint", {{"step", 9}, {"uri", long_text(2'049)}, {"bytes", 7}}}}, 1, later);
  EXPECT_EQ(report.checkpoint, (api::CheckpointStatus{.step = 9, .bytes = 7}))
      << "the checkpoint is there, though its place cannot be said";
  const std::string longest(2'048, 'x');
  EXPECT_EQ(read_progress_report({{"checkpoint", {{"step", 9}, {"uri", longest}}}}, 1, later).checkpoint->uri, longest);
}

}  // namespace
}  // namespace trainyard::plan
