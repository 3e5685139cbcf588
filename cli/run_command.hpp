#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/hosts.hpp"
#include "common/result.hpp"

namespace trainyard::cli {

struct RunCommandOptions {
  std::int64_t processes = 1;
  std::int64_t restarts_max = 0;
  std::string redirects = "0";  ///< See StreamChoice.
  std::string tee = "0";
  std::string log_folder;  ///< Empty: trainyard-runs/<script or program>, or that with -2, -3, ... while it is in use.
  std::vector<std::string> command;
  HostOptions hosts;
};
/// `trainyard run --nproc N -- CMD`: runs N ranks of a command on this machine, or on `hosts`, as torchrun does. Ranks'
/// streams go to files and to our streams; with --redirects only to files; with --tee each line is printed after its
/// rank. Our own messages go to standard error. Returns the exit code (job_run.hpp), or that of wrong usage.
[[nodiscard]] int run_command(const RunCommandOptions& options);

/// The value of torchrun's -r and -t: a choice of streams for each rank. Bits: 1 standard output, 2 standard error.
class StreamChoice {
 public:
  /// "0" to "3" for all ranks, or "0:1,2:3" by rank. ErrorKind::invalid for anything else.
  [[nodiscard]] static Result<StreamChoice> parse(std::string_view text);

  [[nodiscard]] bool has_output(std::int64_t rank) const { return (of(rank) & 1) != 0; }
  [[nodiscard]] bool has_error(std::int64_t rank) const { return (of(rank) & 2) != 0; }

 private:
  int of(std::int64_t rank) const {
    const auto found = by_rank_.find(rank);
    return found == by_rank_.end() ? all_ : found->second;
  }

  int all_ = 0;
  std::map<std::int64_t, int> by_rank_;
};

/// A job's name for a command: the name of its script ("train-gpt" for "python3 -u train_gpt.py"), else of its Python
/// module ("lm" for "python3 -m tools.lm"), else of its program ("python3" for "/usr/bin/python3 -c ..."). A name that
/// would begin with a digit gets "run" in front. At most 23 characters, all valid in a job's name.
[[nodiscard]] std::string command_name(const std::vector<std::string>& command);

}  // namespace trainyard::cli
