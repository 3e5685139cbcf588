#include "cli/output_follower.hpp"

namespace trainyard::cli {

RankOutput OutputFollower::read(std::int64_t attempt) {
  RankOutput news;
  if (attempt != attempt_) {
    news = read_rest();
    attempt_ = attempt;
    tails_.clear();
    for (const auto& log : followed_) tails_.emplace_back(local::rank_log(logs_, attempt, log.rank, log.stream));
  }
  for (std::size_t index = 0; index < tails_.size(); ++index) {
    const FollowedLog& log = followed_[index];
    append(log, log.prefix.empty() ? tails_[index].read_soon() : tails_[index].read_lines(), news);
  }
  return news;
}

RankOutput OutputFollower::read_rest() {
  RankOutput news;
  for (std::size_t index = 0; index < tails_.size(); ++index) {
    const FollowedLog& log = followed_[index];
    for (std::string lines = tails_[index].read_lines(); !lines.empty(); lines = tails_[index].read_lines()) {
      append(log, lines, news);
    }
    if (const std::string part = tails_[index].rest(); !part.empty())
      append(log, log.prefix.empty() ? part : part + "\n", news);
  }
  return news;
}

void OutputFollower::append(const FollowedLog& log, const std::string& text, RankOutput& news) {
  (log.stream == local::LogStream::error ? news.error : news.output) += with_prefix(text, log.prefix);
}

}  // namespace trainyard::cli
