#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/snapshot/unencoded_snapshot.hpp"

/// Snapshots of tests.
namespace trainyard::snapshot {

inline Point a_loss(std::int64_t step, double value = 0.5) {
  return {.name = "loss", .over = Over::steps, .step = step, .value = value};
}

/// A gray image of 3 x 2 pixels.
inline UnencodedImage an_image(std::string name, std::int64_t step = 1, std::uint8_t shade = 100) {
  return {
      .name = std::move(name),
      .step = step,
      .planes = {.images = 1, .channels = 1, .height = 2, .width = 3, .bytes = std::vector<std::uint8_t>(6, shade)}};
}

/// A snapshot with a loss of its step.
inline UnencodedSnapshot an_unencoded(std::int64_t step, std::int64_t generation = 1) {
  return {.id = {.step = step, .generation = generation},
          .epoch = 2,
          .time = Time{std::chrono::sys_days{std::chrono::year{2026} / 11 / 21}},
          .attempt = generation,
          .points = {a_loss(step)},
          .dropped_points = 0,
          .images = {}};
}

}  // namespace trainyard::snapshot
