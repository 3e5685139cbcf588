#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/simulation/simulation.hpp"

namespace trainyard::simulation {

/// Somebody who may make pods and services in several namespaces, and knows the UID of the simulation's job. They make
/// objects that say that the job is their owner, give them finalizers, and end them in every way. In the job's
/// namespace these objects never have a name that a plan of the job would give: pods with such a name have no owner,
/// and give the name back soon if the job needs it.
class Intruder {
 public:
  /// `world` must outlive the intruder, which stops after `acts_max` acts.
  Intruder(Simulation& world, std::uint64_t seed, int acts_max) : world_{world}, random_{seed}, acts_left_{acts_max} {}

  /// Acts, or pauses.
  void act();

  [[nodiscard]] int acts() const { return acts_; }

 private:
  using Key = std::pair<std::string, std::string>;  // Namespace, name.

  /// A name that is given back.
  struct Squat {
    Key key;
    Time until;
  };

  void forge(const api::TrainingJob& victim);
  void change();
  bool squat(const api::TrainingJob& victim);
  bool take(const api::TrainingJob& victim, const std::string& name, bool is_needed);
  void release();
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
  std::vector<Squat> squats_;
};

}  // namespace trainyard::simulation
