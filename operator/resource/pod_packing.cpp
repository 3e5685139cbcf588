#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>

#include "common/check.hpp"
#include "operator/resource/resources.hpp"

namespace trainyard::resource {
namespace {

/// `T` is Plain or const Plain.
template <typename T, typename Plain>
concept MaybeConst = std::same_as<std::remove_const_t<T>, Plain>;

// Lists each structure's fields once, for packing and unpacking.

template <typename Archive>
void pass(Archive& archive, MaybeConst<api::OwnerReference> auto& owner) {
  archive(owner.api_version, owner.kind, owner.name, owner.uid, owner.is_controller);
}

template <typename Archive>
void pass(Archive& archive, MaybeConst<api::Metadata> auto& metadata) {
  archive(metadata.name, metadata.name_space, metadata.uid, metadata.resource_version, metadata.generation,
          metadata.labels, metadata.annotations, metadata.creation_time, metadata.deletion_time,
          metadata.deletion_grace, metadata.finalizers, metadata.controller);
}

template <typename Archive>
void pass(Archive& archive, MaybeConst<PodCondition> auto& condition) {
  archive(condition.type, condition.is_true, condition.reason, condition.message);
}

template <typename Archive>
void pass(Archive& archive, MaybeConst<ContainerTermination> auto& terminated) {
  archive(terminated.exit_code, terminated.signal, terminated.reason, terminated.message, terminated.finished_at);
}

template <typename Archive>
void pass(Archive& archive, MaybeConst<ContainerStatus> auto& status) {
  archive(status.name, status.is_running, status.is_ready, status.waiting_reason, status.waiting_message,
          status.terminated, status.restart_count);
}

template <typename Archive>
void pass(Archive& archive, MaybeConst<Pod> auto& pod) {
  archive(pod.metadata, pod.phase, pod.node_name, pod.pod_ip, pod.request_token, pod.reason, pod.message,
          pod.conditions, pod.containers, pod.init_containers);
}

template <typename T>
concept Number = std::integral<T> || std::is_enum_v<T>;
template <typename T>
concept Structure = std::is_class_v<T>;

/// Writes numbers with seven bits in each byte, the lowest bits first, and texts and lists after their length.
class Packer {
 public:
  template <typename... Fields>
  void operator()(const Fields&... fields) {
    (add(fields), ...);
  }
  std::string take() { return std::move(bytes_); }

 private:
  void add(Number auto number) {
    const auto wide = static_cast<std::int64_t>(number);
    // Zigzag encoding: small numbers of either sign become small unsigned numbers.
    auto left = (static_cast<std::uint64_t>(wide) << 1) ^ static_cast<std::uint64_t>(wide >> 63);
    for (; left >= 128; left >>= 7) bytes_ += static_cast<char>((left & 127) | 128);
    bytes_ += static_cast<char>(left);
  }
  void add(const std::string& text) {
    add(text.size());
    bytes_ += text;
  }
  void add(Time time) { add(time.time_since_epoch().count()); }
  void add(std::chrono::seconds seconds) { add(seconds.count()); }
  template <typename T>
  void add(const std::optional<T>& value) {
    add(value.has_value());
    if (value) add(*value);
  }
  template <typename T>
  void add(const std::vector<T>& list) {
    add(list.size());
    for (const T& item : list) add(item);
  }
  void add(const std::map<std::string, std::string>& map) {
    add(map.size());
    for (const auto& [key, value] : map) (*this)(key, value);
  }
  void add(const Structure auto& structure) { pass(*this, structure); }

  std::string bytes_;
};

class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : left_{bytes} {}

  template <typename... Fields>
  void operator()(Fields&... fields) {
    (read(fields), ...);
  }

 private:
  template <Number T>
  void read(T& number) {
    std::uint64_t packed = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1).front());
      packed |= static_cast<std::uint64_t>(byte & 127) << shift;
      if (byte < 128) break;
    }
    number = static_cast<T>(static_cast<std::int64_t>(packed >> 1) ^ -static_cast<std::int64_t>(packed & 1));
  }
  std::size_t read_count() {
    std::size_t count = 0;
    read(count);
    return count;
  }
  void read(std::string& text) { text = take(read_count()); }
  void read(Time& time) {
    std::int64_t count = 0;
    read(count);
    time = Time{Time::duration{count}};
  }
  void read(std::chrono::seconds& seconds) {
    std::int64_t count = 0;
    read(count);
    seconds = std::chrono::seconds{count};
  }
  template <typename T>
  void read(std::optional<T>& value) {
    bool is_there = false;
    read(is_there);
    if (is_there) read(value.emplace());
  }
  template <typename T>
  void read(std::vector<T>& list) {
    list.resize(read_count());
    for (T& item : list) read(item);
  }
  void read(std::map<std::string, std::string>& map) {
    for (std::size_t left = read_count(); left > 0; --left) {
      std::string key;
      read(key);
      read(map[std::move(key)]);
    }
  }
  void read(Structure auto& structure) { pass(*this, structure); }

  std::string_view take(std::size_t count) {
    check(count <= left_.size(), "a packed pod is whole");
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(count);
    return taken;
  }

  std::string_view left_;
};

}  // namespace

PackedPod pack(const Pod& pod) {
  Packer packer;
  packer(pod);
  std::string bytes = packer.take();
  bytes.shrink_to_fit();
  return {std::move(bytes)};
}

Pod unpack(const PackedPod& packed) {
  Pod pod;
  Unpacker{packed.bytes}(pod);
  return pod;
}

}  // namespace trainyard::resource
