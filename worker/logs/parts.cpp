#include "worker/logs/parts.hpp"

#include <utility>

namespace trainyard::logs {

bool Parts::add(const std::string& bytes, Time now) {
  if (bytes.empty()) return true;
  const bool is_full = !parts_.empty() && parts_.back().bytes.size() + bytes.size() > limits_.part_bytes;
  // A full part that is stored takes no room from what comes.
  if (is_full && unsaved() == nullptr) parts_.clear();
  if (held_bytes() + bytes.size() > limits_.held_bytes) return false;
  if (parts_.empty() || is_full) {
    parts_.push_back({.key = key_of(file_, next_), .bytes = header_of(file_, now)});
    ++next_.part;
  }
  parts_.back().bytes += bytes;
  return true;
}

const Parts::Unsaved* Parts::unsaved() const {
  if (parts_.empty() || parts_.front().saved_bytes == parts_.front().bytes.size()) return nullptr;
  return &parts_.front();
}

void Parts::mark_saved() {
  if (parts_.size() > 1) {
    parts_.pop_front();
  } else {
    parts_.front().saved_bytes = parts_.front().bytes.size();
  }
}

std::size_t Parts::held_bytes() const {
  std::size_t bytes = 0;
  for (const Unsaved& part : parts_) bytes += part.bytes.size();
  return bytes;
}

}  // namespace trainyard::logs
