#pragma once

#include <cstdint>

#include "common/clock.hpp"
#include "tests/fakes/faulty_api.hpp"

namespace trainyard::simulation {

/// A schedule in which every tenth call has a fault: a killed operator, a lost reply, a refusal, a conflict.
[[nodiscard]] fakes::FaultyApi::Schedule random_faults(std::uint64_t seed);

/// As random_faults(), with up to two outages of 8 seconds, in which each call fails with a text of the length that an
/// admission webhook may write. `clock` must outlive the schedule.
[[nodiscard]] fakes::FaultyApi::Schedule random_faults_and_outages(std::uint64_t seed, const Clock& clock);

}  // namespace trainyard::simulation
