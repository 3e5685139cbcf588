#include "checkpoint/interchange/pickle.hpp"

#include <fmt/format.h>

#include "checkpoint/interchange/little_endian.hpp"

namespace trainyard::checkpoint {
namespace {

// The names are those of Python's pickletools, which explains the opcodes.
constexpr std::string_view begin_protocol_2 = "\x80\x02";
constexpr char empty_dict = '}';
constexpr char mark = '(';
constexpr char set_items = 'u';
constexpr char stop = '.';
constexpr char tuple = 't';
constexpr char empty_tuple = ')';
constexpr char persistent_id = 'Q';
constexpr char reduce = 'R';
constexpr std::string_view new_false = "\x89";

std::string text(std::string_view value) {
  return "X" + little_endian(value.size(), 4) + std::string{value};
}

// BININT is signed and has four bytes; LONG1 with nine bytes holds any unsigned 64-bit number.
std::string number(std::uint64_t value) {
  if (value <= 0x7fffffff) return "J" + little_endian(value, 4);
  return "\x8a\x09" + little_endian(value, 8) + std::string(1, '\0');
}

std::string global(std::string_view module, std::string_view name) {
  return fmt::format("c{}\n{}\n", module, name);
}

std::string numbers(std::span<const std::uint64_t> values) {
  if (values.empty()) return {empty_tuple};
  std::string out{mark};
  for (const std::uint64_t value : values) out += number(value);
  return out + tuple;
}

std::vector<std::uint64_t> strides_of(std::span<const std::int64_t> shape) {
  std::vector<std::uint64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * static_cast<std::uint64_t>(shape[i] > 0 ? shape[i] : 1);
  return strides;
}

// ('storage', class, record, 'cpu', count): the loader replaces it by the record's bytes. The storage of a type without
// a storage class counts bytes.
std::string storage_of(const PickledTensor& tensor) {
  const bool has_class = !tensor.dtype.storage.empty();
  return std::string{mark} + text("storage") +
         (has_class ? global("torch", tensor.dtype.storage) : global("torch.storage", "UntypedStorage")) +
         text(std::to_string(tensor.record)) + text("cpu") +
         number(has_class ? tensor.bytes / tensor.dtype.element_bytes : tensor.bytes) + tuple + persistent_id;
}

// _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, backward_hooks), or _v3, which adds the dtype.
std::string tensor_of(const PickledTensor& tensor) {
  const bool has_class = !tensor.dtype.storage.empty();
  const std::vector<std::uint64_t> size{tensor.shape.begin(), tensor.shape.end()};
  return global("torch._utils", has_class ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3") + mark + storage_of(tensor) +
         number(0) + numbers(size) + numbers(strides_of(tensor.shape)) + std::string{new_false} +
         global("collections", "OrderedDict") + empty_tuple + reduce +
         (has_class ? std::string{} : global("torch", tensor.dtype.torch)) + tuple + reduce;
}

}  // namespace

std::string pickle_tensors(std::span<const PickledTensor> tensors) {
  std::string out{begin_protocol_2};
  out += empty_dict;
  out += mark;
  for (const PickledTensor& tensor : tensors) out += text(tensor.name) + tensor_of(tensor);
  out += set_items;
  out += stop;
  return out;
}

}  // namespace trainyard::checkpoint
