#include "worker/observe/step_times.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <vector>

namespace trainyard::observe {

std::optional<double> SpeedMeter::take_rate(Instant now) {
  constexpr double newest_share = 0.3;
  const std::chrono::duration<double> busy = busy_ + (now - since_);
  if (busy.count() <= 0.0) return std::nullopt;
  const double rate = static_cast<double>(samples_) / busy.count();
  smooth_rate_ = smooth_rate_ ? *smooth_rate_ + newest_share * (rate - *smooth_rate_) : rate;
  since_ = now;
  busy_ = std::chrono::nanoseconds{0};
  samples_ = 0;
  return rate;
}

std::optional<std::chrono::duration<double>> SpeedMeter::time_for(std::int64_t samples) const {
  if (!smooth_rate_ || *smooth_rate_ <= 0.0) return std::nullopt;
  return std::chrono::duration<double>{static_cast<double>(samples) / *smooth_rate_};
}

namespace {

using std::chrono::nanoseconds;

nanoseconds own_time(const StepTimes& times) {
  nanoseconds sum{0};
  for (std::size_t part = 0; part < times.parts.size(); ++part) {
    if (part != static_cast<std::size_t>(StepPart::communication)) sum += times.parts[part];
  }
  return sum;
}

template <typename TimeOf>
nanoseconds lower_median(std::span<const RankTimes> ranks, const TimeOf& time_of) {
  std::vector<nanoseconds> all;
  for (const RankTimes& rank : ranks) all.push_back(time_of(rank.times));
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>((all.size() - 1) / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

StepPart slowest_part(std::span<const RankTimes> ranks, const StepTimes& slow) {
  std::size_t slowest = 0;
  nanoseconds most = nanoseconds::min();
  for (std::size_t part = 0; part < slow.parts.size(); ++part) {
    if (part == static_cast<std::size_t>(StepPart::communication)) continue;
    const nanoseconds beyond =
        slow.parts[part] - lower_median(ranks, [&](const StepTimes& times) { return times.parts[part]; });
    if (beyond <= most) continue;
    most = beyond;
    slowest = part;
  }
  return static_cast<StepPart>(slowest);
}

}  // namespace

std::string to_line(const RankTimes& times) {
  std::string line = fmt::format("{}", times.times.steps);
  for (const nanoseconds part : times.times.parts) line += fmt::format(" {}", part.count());
  return line + " " + times.node;
}

RankTimes parse_rank_times(const std::string& line) {
  std::istringstream fields{line};
  RankTimes times;
  fields >> times.times.steps;
  for (nanoseconds& part : times.times.parts) {
    nanoseconds::rep count = 0;
    fields >> count;
    part = nanoseconds{count};
  }
  std::getline(fields >> std::ws, times.node);
  return times;
}

std::map<std::string, double> step_milliseconds(const StepTimes& times) {
  std::map<std::string, double> milliseconds;
  if (times.steps == 0) return milliseconds;
  for (std::size_t part = 0; part < times.parts.size(); ++part) {
    milliseconds[std::string{step_part_names[part]}] =
        std::chrono::duration<double, std::milli>{times.parts[part]}.count() / static_cast<double>(times.steps);
  }
  return milliseconds;
}

std::map<std::string, double> step_milliseconds(std::span<const RankTimes> ranks) {
  StepTimes sum;
  for (const RankTimes& rank : ranks) {
    if (rank.times.steps == 0) continue;
    sum.steps += rank.times.steps;
    for (std::size_t part = 0; part < sum.parts.size(); ++part) sum.parts[part] += rank.times.parts[part];
  }
  return step_milliseconds(sum);
}

std::optional<Straggler> find_straggler(std::span<const RankTimes> ranks) {
  const auto has_other_steps = [&](const RankTimes& rank) { return rank.times.steps != ranks[0].times.steps; };
  if (ranks.size() < 2 || std::ranges::any_of(ranks, has_other_steps)) return std::nullopt;
  const auto slow = std::ranges::max_element(
      ranks, [](const RankTimes& a, const RankTimes& b) { return own_time(a.times) < own_time(b.times); });
  const nanoseconds median = lower_median(ranks, own_time);
  if (median <= nanoseconds{0}) return std::nullopt;
  const double ratio = static_cast<double>(own_time(slow->times).count()) / static_cast<double>(median.count());
  const nanoseconds delay = own_time(slow->times) - median;
  if (ratio < straggler_factor || delay < straggler_delay * slow->times.steps) return std::nullopt;
  return Straggler{
      .rank = slow - ranks.begin(), .node = slow->node, .part = slowest_part(ranks, slow->times), .ratio = ratio};
}

}  // namespace trainyard::observe
