#include "tests/checkpoint/exploration/call.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::checkpoint::exploration {
namespace {

std::uint64_t hash_of_text(const std::string& text) {
  return hash_of(text.data(), text.size());
}

Reply failure(ErrorKind kind, const std::string& message) {
  return {.error = Error{.kind = kind, .message = message}, .content = {}, .listing = {}};
}

}  // namespace

std::uint64_t combine(std::uint64_t a, std::uint64_t b) {
  std::uint64_t mixed = a * 0x9e3779b97f4a7c15U + b + 0x7f4a7c15U;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
  return mixed ^ (mixed >> 31);
}

// FNV-1a, 64 bits.
std::uint64_t hash_of(const void* bytes, std::size_t count) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (std::size_t i = 0; i < count; ++i) {
    hash = (hash ^ static_cast<const unsigned char*>(bytes)[i]) * 0x100000001b3U;
  }
  return hash;
}

void Objects::put(const std::string& key, Bytes content, std::size_t author) {
  remove(key);
  const std::uint64_t hash = hash_of(content.data(), content.size());
  objects_[key] = std::make_shared<const Object>(Object{.content = std::move(content), .hash = hash, .author = author});
  hash_ ^= combine(hash_of_text(key), hash);
}

void Objects::remove(const std::string& key) {
  const auto found = objects_.find(key);
  if (found == objects_.end()) return;
  hash_ ^= combine(hash_of_text(key), found->second->hash);
  objects_.erase(found);
}

const Object* Objects::find(const std::string& key) const {
  const auto found = objects_.find(key);
  return found == objects_.end() ? nullptr : found->second.get();
}

std::string Call::text() const {
  switch (kind) {
    case CallKind::put:
      return fmt::format("put {}{}", key, is_if_absent ? " if absent" : "");
    case CallKind::get:
    case CallKind::get_range:
      return "get " + key;
    case CallKind::list:
      return "list " + key;
    case CallKind::remove:
      return "remove " + key;
    case CallKind::remove_unfinished:
      return "remove what is unfinished";
  }
  return {};
}

std::uint64_t Reply::hash() const {
  std::uint64_t hash =
      combine(hash_of(content.data(), content.size()), error ? 1 + static_cast<std::uint64_t>(error->kind) : 0);
  for (const storage::ObjectInfo& info : listing) hash = combine(hash, combine(hash_of_text(info.key), info.bytes));
  return hash;
}

Reply apply(const Call& call, std::size_t author, Objects& objects) {
  const Object* object = objects.find(call.key);
  switch (call.kind) {
    case CallKind::put:
      if (call.is_if_absent && object != nullptr)
        return failure(ErrorKind::already_exists, call.key + " is already there");
      objects.put(call.key, call.content, author);
      return {};
    case CallKind::get:
      if (object == nullptr) return failure(ErrorKind::not_found, call.key + " is not there");
      return {.error = {}, .content = object->content, .listing = {}};
    case CallKind::get_range: {
      if (object == nullptr) return failure(ErrorKind::not_found, call.key + " is not there");
      if (call.offset + call.size > object->content.size())
        return failure(ErrorKind::corrupt, call.key + " ends too early");
      const auto begin = object->content.begin() + static_cast<std::ptrdiff_t>(call.offset);
      return {.error = {}, .content = Bytes(begin, begin + static_cast<std::ptrdiff_t>(call.size)), .listing = {}};
    }
    case CallKind::list: {
      Reply reply;
      for (const auto& [key, there] : objects.all()) {
        if (key.starts_with(call.key)) reply.listing.push_back({.key = key, .bytes = there->content.size()});
      }
      return reply;
    }
    case CallKind::remove:
      objects.remove(call.key);
      return {};
    case CallKind::remove_unfinished:
      return {};
  }
  return {};
}

}  // namespace trainyard::checkpoint::exploration
