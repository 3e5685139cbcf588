#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "tests/fakes/file_calls.hpp"

namespace trainyard::fakes {

/// For decide_file_calls(): kills the program at point `fatal` (from 1). Each call is one point; a write is three, with
/// none, half and all of its bytes written. Unsynced data outlives a process, so an fsync is no point, and neither is
/// fstatat.
inline std::function<FileFate(const FileCall&)> killing_at(int fatal) {
  return [fatal, next = std::make_shared<std::atomic<int>>(1)](const FileCall& call) -> FileFate {
    if (call.name == "fsync") return {.kind = FileFate::Kind::skip};
    if (call.name == "fstatat") return {};
    const int point_count = call.name == "writev" ? 3 : 1;
    const int first = next->fetch_add(point_count);
    if (fatal < first || fatal >= first + point_count) return {};
    return {.kind = FileFate::Kind::kill,
            .error_number = 0,
            .bytes = call.bytes * static_cast<std::size_t>(fatal - first) / 2};
  };
}

}  // namespace trainyard::fakes
