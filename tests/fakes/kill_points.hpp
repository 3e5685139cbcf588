#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "tests/fakes/file_calls.hpp"

namespace trainyard::fakes {

/// For decide_file_calls(): kills at point `fatal` (from 1). A call is one, and a write of bytes is three: none, half
/// and all of them are written. Unsynced data outlives a process, so an fsync is no such point; neither is a look at a
/// file.
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
