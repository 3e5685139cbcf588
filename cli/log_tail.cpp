#include "cli/log_tail.hpp"

#include <algorithm>
#include <fstream>

namespace trainyard::cli {
namespace {

constexpr std::int64_t chunk_bytes_max = 1 << 20;

}  // namespace

std::string LogTail::read() {
  std::ifstream stream{file_, std::ios::binary | std::ios::ate};
  if (!stream) return {};
  const auto size = static_cast<std::int64_t>(stream.tellg());
  std::string bytes(static_cast<std::size_t>(std::clamp<std::int64_t>(size - position_, 0, chunk_bytes_max)), '\0');
  stream.seekg(position_);
  stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(stream.gcount()));
  position_ += stream.gcount();
  return bytes;
}

std::string LogTail::read_lines() {
  part_ += read();
  const auto end = part_.rfind('\n');
  if (end == std::string::npos) return {};
  std::string lines = part_.substr(0, end + 1);
  part_.erase(0, end + 1);
  return lines;
}

std::string LogTail::read_soon() {
  const bool is_overdue = !part_.empty();
  std::string lines = read_lines();
  return is_overdue ? lines + rest() : lines;
}

std::string LogTail::read_rest() {
  for (std::string bytes = read(); !bytes.empty(); bytes = read()) part_ += bytes;
  return rest();
}

std::string with_prefix(const std::string& lines, const std::string& prefix) {
  std::string text;
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', begin), lines.size() - 1);
    text += prefix;
    text.append(lines, begin, end + 1 - begin);
    begin = end + 1;
  }
  return text;
}

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
    std::string text = tails_[index].read_rest();
    if (!log.prefix.empty() && !text.empty() && !text.ends_with('\n')) text += '\n';
    append(log, text, news);
  }
  return news;
}

void OutputFollower::append(const FollowedLog& log, const std::string& text, RankOutput& news) {
  (log.stream == local::LogStream::error ? news.error : news.output) += with_prefix(text, log.prefix);
}

}  // namespace trainyard::cli
