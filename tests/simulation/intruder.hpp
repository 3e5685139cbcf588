#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulation/simulation.hpp"

namespace trainyard::simulation {

/// Somebody who may make pods and services, and a job of their own, in several namespaces, and knows the UID of the
/// simulation's job. They make objects that say that the job is their owner, give them finalizers, end them in every
/// way, and never take a name in the job's namespace that a plan of the job would give.
class Intruder {
 public:
  /// `world` must outlive the intruder, which stops after `acts_max` acts.
  Intruder(Simulation& world, std::uint64_t seed, int acts_max) : world_{world}, random_{seed}, acts_left_{acts_max} {}

  /// Acts, or pauses.
  void act();

  [[nodiscard]] int acts() const { return acts_; }
  /// The operator's deletes of objects that the intruder has made. There must be none.
  [[nodiscard]] std::vector<std::string> deleted_by_operator() const;

 private:
  using Key = std::pair<std::string, std::string>;  // Namespace, name.

  void forge(const api::TrainingJob& victim);
  void change();
  void lead_own_job();
  json metadata_of(const api::TrainingJob& victim, const Key& key);
  Key choose_pod(const api::TrainingJob& victim);
  std::size_t below(std::size_t end) { return random_() % end; }
  template <typename T>
  T choose(const std::vector<T>& from) {
    return from[below(from.size())];
  }

  Simulation& world_;
  std::mt19937_64 random_;
  int acts_left_;
  int acts_ = 0;
  std::vector<Key> pods_;
  std::vector<Key> services_;
};

}  // namespace trainyard::simulation
