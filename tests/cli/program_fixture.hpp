#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "local/process_group.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/paths/paths.hpp"

/// The program `trainyard` as a user runs it.
namespace trainyard::cli {

inline constexpr std::chrono::seconds patience{90};  // Only a broken program takes that long.

struct ProgramOutcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

class ProgramTest : public testing::Test {
 protected:
  local::ProcessGroup start(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), paths::program("trainyard"));
    return start_program(arguments);
  }
  /// Runs the shell script `script`, in which $0 is the program.
  local::ProcessGroup start_shell(const std::string& script) {
    return start_program({"sh", "-c", script, paths::program("trainyard")});
  }
  local::ProcessGroup start_program(const std::vector<std::string>& arguments) {
    ++runs_;
    local::ProcessSpec spec{.arguments = arguments,
                            // No GPU is visible, so that a machine with some gives the same outcomes.
                            .environment = {"PATH=/usr/bin:/bin", "HOME=" + folder_.path(), "FOLDER=" + folder_.path(),
                                            "CUDA_VISIBLE_DEVICES="},
                            .working_directory = folder_.path(),
                            .output_path = folder_.file("out" + std::to_string(runs_)).string(),
                            .error_path = folder_.file("err" + std::to_string(runs_)).string()};
    auto group = local::ProcessGroup::start(spec);
    EXPECT_TRUE(group) << group.error().message;
    return *std::move(group);
  }
  ProgramOutcome end_of(local::ProcessGroup& group) {
    while (true) {
      pollfd readable{.fd = group.event_fd(), .events = POLLIN, .revents = 0};
      if (::poll(&readable, 1, static_cast<int>(std::chrono::milliseconds{patience}.count())) != 1) break;
      const auto event = group.next_event();
      if (event && std::holds_alternative<local::ProcessStarted>(*event))
        pid_ = std::get<local::ProcessStarted>(*event).pid;
      if (event && std::holds_alternative<local::ProcessEnded>(*event)) {
        return {.exit_code = std::get<local::ProcessEnded>(*event).exit_code, .out = out(), .err = err()};
      }
    }
    ADD_FAILURE() << "it did not end";
    return {};
  }
  ProgramOutcome run(const std::vector<std::string>& arguments) {
    auto group = start(arguments);
    return end_of(group);
  }
  std::string out() const { return fakes::text_of(folder_.file("out" + std::to_string(runs_))); }
  std::string err() const { return fakes::text_of(folder_.file("err" + std::to_string(runs_))); }
  /// The pid of the program.
  static pid_t pid_of(local::ProcessGroup& group) {
    pollfd readable{.fd = group.event_fd(), .events = POLLIN, .revents = 0};
    ::poll(&readable, 1, static_cast<int>(std::chrono::milliseconds{patience}.count()));
    const auto event = group.next_event();
    return event && std::holds_alternative<local::ProcessStarted>(*event) ? std::get<local::ProcessStarted>(*event).pid
                                                                          : -1;
  }
  static bool comes_true(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (!condition() && std::chrono::steady_clock::now() < deadline) ::poll(nullptr, 0, 5);
    return condition();
  }
  bool appears(const std::string& file) const {
    return comes_true([&] { return std::filesystem::exists(folder_.file(file)); });
  }
  /// Waits until the last started program has written `words` to standard output; false if it does not in time.
  bool says(const std::string& words) const {
    return comes_true([&] { return out().find(words) != std::string::npos; });
  }

  /// A file with a job of `replicas` shells.
  std::string shell_job(const std::string& script, int replicas = 1) {
    return folder_
        .write("job.yaml",
               "apiVersion: trainyard.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: job}\nspec:\n  replicas: " +
                   std::to_string(replicas) +
                   "\n  gpusPerPod: 0\n  restart: {application: {max: 1}, backoff: {initial: 10ms, max: 10ms}}\n"
                   "  template: {spec: {terminationGracePeriodSeconds: 20, containers: [{name: worker, image: none, "
                   "command: [sh, -c, \"" +
                   script + "\"]}]}}\n")
        .string();
  }

  const fakes::TemporaryFolder folder_;
  int runs_ = 0;
  pid_t pid_ = -1;
};

}  // namespace trainyard::cli
