#include "tests/simulation/random_faults.hpp"

#include <optional>
#include <random>
#include <string>

namespace trainyard::simulation {
namespace {

using fakes::ApiCall;
using fakes::Fault;

std::optional<Fault> random_fault(std::mt19937_64& random) {
  if (random() % 10 != 0) return std::nullopt;
  switch (random() % 7) {
    case 0:
      return Fault{.kind = Fault::Kind::dies_before};
    case 1:
      return Fault{.kind = Fault::Kind::dies_after};
    case 2:
      return Fault{.kind = Fault::Kind::reply_lost, .error = {ErrorKind::timeout, "no reply"}};
    case 3:
      return Fault{.kind = Fault::Kind::reply_lost, .error = {ErrorKind::unavailable, "reset"}};
    case 4:
      return Fault{.error = {ErrorKind::throttled, "too many requests", std::chrono::milliseconds{250}}};
    case 5:
      return Fault{.error = {ErrorKind::conflict, "somebody was faster"}};
    default:
      return Fault{.error = {ErrorKind::unavailable, "etcdserver: leader changed"}};
  }
}

}  // namespace

fakes::FaultyApi::Schedule random_faults(std::uint64_t seed) {
  return [random = std::mt19937_64{seed}](const ApiCall&) mutable { return random_fault(random); };
}

fakes::FaultyApi::Schedule random_faults_and_outages(std::uint64_t seed, const Clock& clock) {
  const Error outage{ErrorKind::unavailable, "failed calling webhook: " + std::string(40'000, '!')};
  return [random = std::mt19937_64{seed}, outage, &clock, until = Time{}, left = 2](const ApiCall&) mutable {
    if (left > 0 && random() % 40 == 0) {
      --left;
      until = clock.now() + std::chrono::seconds{8};
    }
    return clock.now() < until ? std::optional{Fault{.error = outage}} : random_fault(random);
  };
}

}  // namespace trainyard::simulation
