#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "worker/logs/record.hpp"

namespace trainyard::logs {

inline const Time midnight{std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}};

inline Record a_record(std::int64_t step, std::map<std::string, double> values) {
  return {.step = step, .time = midnight + std::chrono::seconds{step}, .values = std::move(values), .images = {}};
}

inline snapshot::UnencodedImage an_image(std::string name, std::int64_t step) {
  return {.name = std::move(name),
          .step = step,
          .planes = {.images = 1, .channels = 3, .height = 2, .width = 4, .bytes = std::vector<std::uint8_t>(24, 200)}};
}

}  // namespace trainyard::logs
