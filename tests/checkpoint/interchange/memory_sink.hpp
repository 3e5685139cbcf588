#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>

#include "checkpoint/interchange/new_file.hpp"

namespace trainyard::checkpoint {

/// A sink in memory, of bounded size.
class MemorySink final : public Sink {
 public:
  explicit MemorySink(std::size_t bytes_max = 1U << 30) : bytes_max_{bytes_max} {}
  Result<void> write(std::span<const std::byte> bytes) override {
    if (content.size() + bytes.size() > bytes_max_) return fail(ErrorKind::io, "No space left on device");
    content.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  }
  Result<void> patch(std::uint64_t offset, std::span<const std::byte> bytes) override {
    std::memcpy(content.data() + offset, bytes.data(), bytes.size());
    return {};
  }
  std::string content;

 private:
  std::size_t bytes_max_;
};

}  // namespace trainyard::checkpoint
