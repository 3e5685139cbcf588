#include "storage/random_share.hpp"

#include <random>

namespace trainyard::storage {

double random_share() {
  thread_local std::mt19937 random{std::random_device{}()};
  return std::uniform_real_distribution<double>{0.0, 1.0}(random);
}

}  // namespace trainyard::storage
