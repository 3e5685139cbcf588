#include "cli/output_follower.hpp"

namespace trainyard::cli {

std::string OutputFollower::read(std::int64_t attempt) {
  std::string text;
  if (attempt != attempt_) {
    text = read_rest();
    attempt_ = attempt;
    tails_.clear();
    for (const auto& log : followed_) tails_.emplace_back(local::rank_log(logs_, attempt, log.rank, log.stream));
  }
  for (std::size_t index = 0; index < tails_.size(); ++index) {
    text += with_prefix(tails_[index].read_lines(), followed_[index].prefix);
  }
  return text;
}

std::string OutputFollower::read_rest() {
  std::string text;
  for (std::size_t index = 0; index < tails_.size(); ++index) {
    for (std::string lines = tails_[index].read_lines(); !lines.empty(); lines = tails_[index].read_lines()) {
      text += with_prefix(lines, followed_[index].prefix);
    }
    if (const std::string part = tails_[index].rest(); !part.empty())
      text += with_prefix(part + "\n", followed_[index].prefix);
  }
  return text;
}

}  // namespace trainyard::cli
