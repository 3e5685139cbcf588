#include "worker/data/sample_random.hpp"

namespace trainyard::data {
namespace {

constexpr std::uint64_t golden_gamma = 0x9e3779b97f4a7c15ULL;

std::uint64_t mixed(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ULL;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebULL;
  return bits ^ (bits >> 31);
}

/// Mixes after each part, so that (epoch 1, sample 2) and (epoch 2, sample 1) begin elsewhere.
std::uint64_t first_state(std::int64_t seed, std::int64_t epoch, std::int64_t sample) {
  std::uint64_t state = mixed(static_cast<std::uint64_t>(seed) + golden_gamma);
  state = mixed(state + static_cast<std::uint64_t>(epoch) + golden_gamma);
  return mixed(state + static_cast<std::uint64_t>(sample) + golden_gamma);
}

}  // namespace

SampleRandom::SampleRandom(std::int64_t seed, std::int64_t epoch, std::int64_t sample)
    : state_{first_state(seed, epoch, sample)} {}

std::uint64_t SampleRandom::bits() {
  state_ += golden_gamma;
  return mixed(state_);
}

std::int64_t SampleRandom::below(std::int64_t count) {
  return static_cast<std::int64_t>(((bits() >> 32) * static_cast<std::uint64_t>(count)) >> 32);
}

double SampleRandom::uniform(double from, double to) {
  constexpr double two_to_the_minus_53 = 0x1.0p-53;
  return from + (to - from) * (static_cast<double>(bits() >> 11) * two_to_the_minus_53);
}

}  // namespace trainyard::data
