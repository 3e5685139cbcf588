#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/simulation/liar.hpp"
#include "tests/simulation/simulation.hpp"

namespace trainyard::simulation {

/// A hostile author, who applies, edits and deletes jobs of any form in the namespace of the simulation's job and in
/// another, and whose workers lie and end in every way.
class Author {
 public:
  /// `world` must outlive the author, who stops after `acts_max` acts.
  Author(Simulation& world, std::uint64_t seed, int acts_max)
      : world_{world}, random_{seed}, liar_{seed}, acts_left_{acts_max} {}

  /// Acts, or pauses. The first act comes after the simulation's job was applied.
  void act();

  [[nodiscard]] int acts() const { return acts_; }

 private:
  using Key = control::ObjectKey;

  void apply(const Key& key);
  void edit(const Key& key);
  void annotate(const Key& key);
  void lie(const Key& key);
  void end_a_pod(const Key& key);
  [[nodiscard]] json manifest_of(const Key& key);
  std::size_t below(std::size_t end) { return random_() % end; }

  Simulation& world_;
  std::mt19937_64 random_;
  Liar liar_;
  int acts_left_;
  int acts_ = 0;
};

}  // namespace trainyard::simulation
