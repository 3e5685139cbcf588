#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "tests/fakes/faulty_store.hpp"
#include "tests/fakes/memory_store.hpp"

namespace trainyard::checkpoint {

inline const Error dead{ErrorKind::unavailable, "the process is dead", std::nullopt};

/// Where in a write a process dies: before it (0), after so many of `cut_count` parts of its bytes (in a store that
/// tears objects), or after all of it, before the reply (`cut_count`).
inline constexpr int cut_count = 8;

struct Death {
  int write = 0;  ///< From 1; puts and removes.
  int cut = 0;
};

/// Leaves the torn rest of the write at which a process dies.
inline void leave_torn(fakes::MemoryObjects& objects, std::string_view call, std::string_view key,
                       storage::Pieces pieces, int cut) {
  if (cut == 0) return;
  fakes::MemoryStore store{objects};
  Result<void> done;
  if (call == "put") {
    std::vector<std::byte> content;
    for (const auto& piece : pieces) content.insert(content.end(), piece.begin(), piece.end());
    const std::span<const std::byte> part =
        std::span{content}.first(content.size() * static_cast<std::size_t>(cut) / static_cast<std::size_t>(cut_count));
    done = store.put(key, {&part, 1}, {});
  } else if (cut == cut_count) {
    done = store.remove(key);
  }
  EXPECT_TRUE(done);
}

/// A store whose process dies at `death`: nothing reaches the store from then on. `writes` counts those of all stores
/// of the process.
inline std::unique_ptr<storage::Store> dying_store(fakes::MemoryObjects& objects, std::atomic<int>& writes,
                                                   Death death) {
  return std::make_unique<fakes::FaultyStore>(
      std::make_unique<fakes::MemoryStore>(objects),
      [&objects, &writes, death](std::string_view call, std::string_view key,
                                 storage::Pieces pieces) -> std::optional<Error> {
        const bool is_write = call == "put" || call == "remove";
        const int write = is_write ? ++writes : writes.load();
        if (write < death.write) return std::nullopt;
        if (is_write && write == death.write) leave_torn(objects, call, key, pieces, death.cut);
        return dead;
      });
}

}  // namespace trainyard::checkpoint
