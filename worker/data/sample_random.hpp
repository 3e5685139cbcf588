#pragma once

#include <cstdint>

namespace trainyard::data {

/// Random numbers for one sample in one epoch. They depend on the arguments alone, and on no generator of torch: a run
/// that resumes, another number of ranks and another thread get the same ones. Source: splitmix64 (Steele, Lea and
/// Flood 2014).
class SampleRandom {
 public:
  SampleRandom(std::int64_t seed, std::int64_t epoch, std::int64_t sample);

  [[nodiscard]] std::uint64_t bits();
  /// In [0, count); count from 1 to 2^32.
  [[nodiscard]] std::int64_t below(std::int64_t count);
  /// In [from, to).
  [[nodiscard]] double uniform(double from, double to);
  /// True in half of the cases.
  [[nodiscard]] bool coin() { return below(2) == 1; }

 private:
  std::uint64_t state_;
};

}  // namespace trainyard::data
