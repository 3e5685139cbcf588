#pragma once

#include <cstddef>
#include <deque>
#include <string>

#include "api/training_spec.hpp"
#include "worker/logs/file_format.hpp"

namespace trainyard::logs {

struct PartLimits {
  /// A part that is this long is full. Bounds how much is put again to add a line.
  std::size_t part_bytes = std::size_t{4} << 20;
  /// Bytes that are kept in memory, most of them while the store fails.
  std::size_t held_bytes = std::size_t{16} << 20;
};

/// The parts of one kind of file that are not yet stored whole, the oldest first. Pure.
class Parts {
 public:
  Parts(api::LogFile file, const PartName& first, const PartLimits& limits = {})
      : file_{file}, next_{first}, limits_{limits} {}

  /// Adds `bytes` (whole lines or records) to the last part, or begins a new one where that part is full. False when
  /// there is no room; nothing is added then.
  [[nodiscard]] bool add(const std::string& bytes, Time now);

  struct Unsaved {
    std::string key;
    std::string bytes;
    std::size_t saved_bytes = 0;
  };
  /// The oldest part with bytes that are not stored; nullptr when there is none.
  [[nodiscard]] const Unsaved* unsaved() const;
  /// The part that unsaved() returned is stored.
  void mark_saved();

 private:
  [[nodiscard]] std::size_t held_bytes() const;

  const api::LogFile file_;
  PartName next_;  // The name of the next part to begin.
  const PartLimits limits_;
  std::deque<Unsaved> parts_;  // Only the last one may be stored, and only in part.
};

}  // namespace trainyard::logs
