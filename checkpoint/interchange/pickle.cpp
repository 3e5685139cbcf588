#include "checkpoint/interchange/pickle.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <optional>
#include <set>
#include <utility>

#include "checkpoint/interchange/little_endian.hpp"
#include "checkpoint/interchange/pickle_graph.hpp"
#include "checkpoint/interchange/tensor_type.hpp"
#include "common/try.hpp"

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

namespace {

using ObjectKind = PickledObject::Kind;

constexpr std::string_view ordered_dict = "collections.OrderedDict";
constexpr std::string_view rebuild_v2 = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view rebuild_v3 = "torch._utils._rebuild_tensor_v3";
constexpr std::string_view rebuild_parameter = "torch._utils._rebuild_parameter";
constexpr std::string_view torch_prefix = "torch.";
constexpr std::string_view untyped_storage = "UntypedStorage";

constexpr int nesting_max = 32;
constexpr std::size_t name_bytes_max = 1024;
// Limits for what is copied for each tensor, since hundreds of thousands of tensors may share one description. torch
// names its storages by numbers, so a record's name is short.
constexpr std::size_t record_bytes_max = 64;
constexpr std::size_t pickled_tensors_max = 300'000;
constexpr std::size_t dicts_max = 100'000;

// The class in "torch.FloatStorage" or "torch.storage.FloatStorage"; empty for another global.
std::string_view class_of(std::string_view global) {
  for (const std::string_view module : {std::string_view{"torch.storage."}, torch_prefix}) {
    if (global.starts_with(module)) return global.substr(module.size());
  }
  return {};
}

bool is_storage(std::string_view global) {
  return class_of(global) == untyped_storage || find_storage_dtype(class_of(global)).has_value();
}

bool is_dtype(std::string_view global) {
  return global.starts_with(torch_prefix) && find_torch_dtype(global.substr(torch_prefix.size())).has_value();
}

bool is_allowed(std::string_view global) {
  return global == ordered_dict || global == rebuild_v2 || global == rebuild_v3 || global == rebuild_parameter ||
         is_storage(global) || is_dtype(global);
}

bool is_call_of(const PickledObject& object, std::string_view function) {
  return object.kind == ObjectKind::call && object.function->text == function;
}

bool is_dict(const PickledObject& object) {
  return object.kind == ObjectKind::dict || is_call_of(object, ordered_dict);
}

std::string_view words_for(const PickledObject& object) {
  switch (object.kind) {
    case ObjectKind::none:
      return "None";
    case ObjectKind::boolean:
      return "a boolean";
    case ObjectKind::integer:
    case ObjectKind::real:
      return "a number";
    case ObjectKind::text:
      return "a text";
    case ObjectKind::tuple:
      return "a tuple";
    case ObjectKind::list:
      return "a list";
    case ObjectKind::dict:
      return "a dict";
    case ObjectKind::global:
      return "a type";
    case ObjectKind::call:
      return "a tensor";
    case ObjectKind::persistent:
      return "a storage";
  }
  return "";
}

// Names are kept in JSON, which allows only UTF-8.
bool is_utf8(const std::string& text) {
  using nlohmann::json;
  return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace)).get<std::string>() == text;
}

tl::unexpected<Error> no_tensor(const std::string& name) {
  return fail(ErrorKind::corrupt, fmt::format("its data.pkl is damaged: it describes no valid tensor for {}", name));
}

bool read_integers(const PickledObject& tuple, std::vector<std::int64_t>& integers) {
  if (tuple.kind != ObjectKind::tuple || tuple.items.size() > dimensions_max) return false;
  for (const PickledObject* item : tuple.items) {
    if (item->kind != ObjectKind::integer || item->integer < 0) return false;
    integers.push_back(item->integer);
  }
  return true;
}

struct PickledStorage {
  std::string_view storage_class;
  std::string record;
  std::uint64_t count = 0;  // Elements; bytes for an untyped storage.
};

// ('storage', class, record, device, count)
std::optional<PickledStorage> read_storage(const PickledObject& object) {
  if (object.kind != ObjectKind::persistent || object.items.front()->kind != ObjectKind::tuple) return std::nullopt;
  const auto& id = object.items.front()->items;
  if (id.size() != 5 || id[0]->kind != ObjectKind::text || id[0]->text != "storage" ||
      id[1]->kind != ObjectKind::global || !is_storage(id[1]->text) || id[2]->kind != ObjectKind::text ||
      id[2]->text.size() > record_bytes_max || id[3]->kind != ObjectKind::text || id[4]->kind != ObjectKind::integer ||
      id[4]->integer < 0)
    return std::nullopt;
  return PickledStorage{.storage_class = class_of(id[1]->text),
                        .record = id[2]->text,
                        .count = static_cast<std::uint64_t>(id[4]->integer)};
}

// The type of the storage's elements. `given` is the type that _rebuild_tensor_v3 names; nullptr for _v2.
std::optional<Dtype> dtype_of(const PickledStorage& storage, const PickledObject* given) {
  if (given == nullptr) return find_storage_dtype(storage.storage_class);
  if (given->kind != ObjectKind::global || !is_dtype(given->text) || storage.storage_class != untyped_storage)
    return std::nullopt;
  return find_torch_dtype(std::string_view{given->text}.substr(torch_prefix.size()));
}

// True when every element lies in a storage of `count` elements.
bool is_inside(const UnpickledTensor& tensor, std::uint64_t count) {
  const auto elements = element_count(tensor.shape);
  if (!elements || tensor.strides.size() != tensor.shape.size()) return false;
  if (*elements == 0) return true;
  std::uint64_t last = tensor.offset;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    std::uint64_t reach = 0;
    if (__builtin_mul_overflow(static_cast<std::uint64_t>(tensor.shape[i] - 1),
                               static_cast<std::uint64_t>(tensor.strides[i]), &reach) ||
        __builtin_add_overflow(last, reach, &last))
      return false;
  }
  return last < count;
}

// _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, backward_hooks); _v3 adds the dtype. A dict after
// these marks bytes that are to be conjugated or negated.
Result<UnpickledTensor> read_tensor(const PickledObject& call, const std::string& name) {
  const bool is_v3 = is_call_of(call, rebuild_v3);
  const std::size_t argument_count = is_v3 ? 7 : 6;
  const auto& arguments = call.arguments->items;
  if (arguments.size() == argument_count + 1 && arguments.back()->kind == ObjectKind::dict) {
    return fail(ErrorKind::invalid, fmt::format("{} is conjugated or negated only when it is read: in Python, "
                                                "tensor.resolve_conj().resolve_neg() before torch.save",
                                                name));
  }
  if (arguments.size() != argument_count || call.has_state || !call.items.empty()) return no_tensor(name);
  const auto storage = read_storage(*arguments[0]);
  if (!storage) return no_tensor(name);
  const auto dtype = dtype_of(*storage, is_v3 ? arguments[6] : nullptr);
  if (!dtype || arguments[1]->kind != ObjectKind::integer || arguments[1]->integer < 0) return no_tensor(name);
  UnpickledTensor tensor{.name = name,
                         .dtype = *dtype,
                         .record = storage->record,
                         .offset = static_cast<std::uint64_t>(arguments[1]->integer),
                         .shape = {},
                         .strides = {}};
  if (!read_integers(*arguments[2], tensor.shape) || !read_integers(*arguments[3], tensor.strides))
    return no_tensor(name);
  const std::uint64_t unit = is_v3 ? 1 : dtype->element_bytes;
  if (__builtin_mul_overflow(storage->count, unit, &tensor.storage_bytes) ||
      !is_inside(tensor, tensor.storage_bytes / dtype->element_bytes))
    return fail(ErrorKind::corrupt,
                fmt::format("{} reaches beyond the {} bytes of its storage", name, tensor.storage_bytes));
  return tensor;
}

// Collects the tensors of nested dicts. Objects may be shared and refer to each other in circles, so everything that
// grows is limited.
class Flattening {
 public:
  Result<void> add(const PickledObject& object, const std::string& name, int depth) {
    if (is_dict(object)) return add_dict(object, name, depth);
    if (depth == 0) {
      return fail(ErrorKind::invalid,
                  fmt::format("it holds {}, not a dict of tensors: in Python, torch.save(model.state_dict(), FILE)",
                              words_for(object)));
    }
    const PickledObject* tensor = &object;
    if (is_call_of(object, rebuild_parameter)) {
      const auto& arguments = object.arguments->items;
      if (arguments.size() != 3 || object.has_state || !object.items.empty()) return no_tensor(name);
      tensor = arguments[0];
    }
    if (!is_call_of(*tensor, rebuild_v2) && !is_call_of(*tensor, rebuild_v3)) {
      return fail(ErrorKind::invalid,
                  fmt::format("{} is {}, and only dicts of tensors are read: in Python, torch.save(model.state_dict(), "
                              "FILE)",
                              name, words_for(*tensor)));
    }
    auto read = TRY(read_tensor(*tensor, name));
    if (!names_.insert(name).second) return fail(ErrorKind::invalid, fmt::format("two tensors are named {}", name));
    if (tensors_.size() == pickled_tensors_max)
      return fail(ErrorKind::invalid, fmt::format("it holds more than {} tensors", pickled_tensors_max));
    tensors_.push_back(std::move(read));
    return {};
  }

  std::vector<UnpickledTensor> take() { return std::move(tensors_); }

 private:
  Result<void> add_dict(const PickledObject& dict, const std::string& name, int depth) {
    if (depth == nesting_max)
      return fail(ErrorKind::invalid, fmt::format("its dicts lie more than {} deep in each other", nesting_max));
    if (++dict_count_ > dicts_max)
      return fail(ErrorKind::invalid, fmt::format("it holds more than {} dicts", dicts_max));
    if (dict.kind == ObjectKind::call && !dict.arguments->items.empty())
      return fail(ErrorKind::invalid, "it has an OrderedDict made of a list, which torch.save does not write");
    for (std::size_t i = 0; i < dict.items.size(); i += 2) {
      const PickledObject& key = *dict.items[i];
      if (key.kind != ObjectKind::text) {
        return fail(ErrorKind::invalid, fmt::format("{} has a key that is {}: tensors have names here",
                                                    name.empty() ? "its dict" : name, words_for(key)));
      }
      const std::string inner = name.empty() ? key.text : fmt::format("{}.{}", name, key.text);
      if (key.text.empty() || inner.size() > name_bytes_max || !is_utf8(key.text)) {
        return fail(ErrorKind::invalid,
                    fmt::format("a tensor's name is empty, of more than {} bytes, or no text", name_bytes_max));
      }
      TRY(add(*dict.items[i + 1], inner, depth + 1));
    }
    return {};
  }

  std::vector<UnpickledTensor> tensors_;
  std::set<std::string> names_;
  std::size_t dict_count_ = 0;
};

}  // namespace

Result<std::vector<UnpickledTensor>> unpickle_tensors(std::string_view pickle) {
  const auto graph = TRY(PickleGraph::read(pickle, is_allowed));
  Flattening flattening;
  return flattening.add(graph.root(), "", 0).map([&] { return flattening.take(); });
}

}  // namespace trainyard::checkpoint
