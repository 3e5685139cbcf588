#include "worker/strategy/exchange_timeline.hpp"

#include <fmt/format.h>

#include <chrono>
#include <utility>

namespace trainyard::strategy {
namespace {

using nlohmann::json;

double microseconds(Instant::duration time) {
  return std::chrono::duration<double, std::micro>{time}.count();
}

}  // namespace

ExchangeTimeline::ExchangeTimeline(std::function<Instant()> now, std::size_t exchanges_max)
    : now_{std::move(now)}, exchanges_max_{exchanges_max}, began_{now_()} {}

std::size_t ExchangeTimeline::add_track(std::string name, std::int64_t bytes) {
  tracks_.push_back({.name = std::move(name), .bytes = bytes});
  tracks_.back().present.track = tracks_.size() - 1;
  return tracks_.size() - 1;
}

void ExchangeTimeline::note_finished(std::size_t track) {
  at(track).finished = now_();
  if (!is_full()) exchanges_.push_back(at(track));
}

json ExchangeTimeline::chrome_trace(std::int64_t rank) const {
  json events = json::array();
  events.push_back(
      {{"name", "process_name"}, {"ph", "M"}, {"pid", rank}, {"args", {{"name", fmt::format("rank {}", rank)}}}});
  for (std::size_t track = 0; track < tracks_.size(); ++track) {
    events.push_back({{"name", "thread_name"},
                      {"ph", "M"},
                      {"pid", rank},
                      {"tid", track},
                      {"args", {{"name", tracks_[track].name}}}});
  }
  const auto add = [&](const char* name, const BucketExchangeTimes& of, Instant begin, Instant end) {
    events.push_back({{"name", name},
                      {"ph", "X"},
                      {"pid", rank},
                      {"tid", of.track},
                      {"ts", microseconds(begin - began_)},
                      {"dur", microseconds(end - begin)},
                      {"args", {{"bytes", tracks_[of.track].bytes}}}});
  };
  for (const BucketExchangeTimes& of : exchanges_) {
    add("queued", of, of.filled, of.sent);
    add("exchange", of, of.sent, of.finished);
  }
  return {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
}

}  // namespace trainyard::strategy
