#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace trainyard::checkpoint {

/// SHA-256 of bytes that come in pieces.
class Sha256 {
 public:
  Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  ~Sha256();

  void add(std::span<const std::byte> piece);
  /// The digest: 64 hexadecimal digits in lower case. Call nothing after it.
  [[nodiscard]] std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trainyard::checkpoint
