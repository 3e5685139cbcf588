#include "checkpoint/interchange/pickle_graph.hpp"

#include <fmt/format.h>

#include <limits>
#include <unordered_map>
#include <utility>

#include "common/try.hpp"

namespace trainyard::checkpoint {
namespace {

using Kind = PickledObject::Kind;

// A state dict needs some twenty objects for each tensor.
constexpr std::size_t objects_max = 4'000'000;
constexpr std::size_t global_bytes_max = 256;
constexpr int protocol_max = 5;

tl::unexpected<Error> torn_pickle(std::string_view why) {
  return fail(ErrorKind::corrupt, fmt::format("its data.pkl is damaged: {}", why));
}

// Runs a pickle's instructions, without those that torch.save does not use. Python's pickletools explains them.
class PickleMachine {
 public:
  PickleMachine(std::string_view pickle, const PickleGraph::Allows& allows) : left_{pickle}, allows_{allows} {}

  // Returns the object that is on the stack at the end.
  Result<const PickledObject*> run() {
    const std::size_t size = left_.size();
    while (!left_.empty()) {
      const std::size_t place = size - left_.size();
      const auto instruction = static_cast<unsigned char>(left_.front());
      left_.remove_prefix(1);
      if (instruction == '.') return pop();
      TRY(step(instruction, place));
      if (objects_.size() > objects_max)
        return fail(ErrorKind::invalid, fmt::format("its data.pkl holds more than {} objects", objects_max));
    }
    return torn_pickle("it has no end");
  }

  std::deque<PickledObject> take_objects() { return std::move(objects_); }

 private:
  Result<void> step(unsigned char instruction, std::size_t place) {
    switch (instruction) {
      case 0x80:  // PROTO
        return begin_protocol();
      case 0x95:  // FRAME: a hint how much to read at once.
        return number(8).map([](std::uint64_t) {});
      case '(':
        marks_.push_back(stack_.size());
        return {};
      case 'N':
        return push(Kind::none);
      case 0x88:
        return push_integer(Kind::boolean, 1);
      case 0x89:
        return push_integer(Kind::boolean, 0);
      case 'K':
        return push_number(1);
      case 'M':
        return push_number(2);
      case 'J':
        return number(4).map([&](std::uint64_t bits) {
          push_integer(Kind::integer, static_cast<std::int32_t>(static_cast<std::uint32_t>(bits)));
        });
      case 0x8a:  // LONG1
        return push_long();
      case 'G':
        return number(8).map([&](std::uint64_t) { push(Kind::real); });
      case 0x8c:
        return push_text(1);
      case 'X':
        return push_text(4);
      case 0x8d:
        return push_text(8);
      case '}':
        return push(Kind::dict);
      case ']':
        return push(Kind::list);
      case ')':
        return push(Kind::tuple);
      case 0x85:
      case 0x86:
      case 0x87:
        return push_tuple(instruction - 0x84U);
      case 't':
        return take_marked().map([&](std::vector<const PickledObject*> items) {
          push(Kind::tuple);
          objects_.back().items = std::move(items);
        });
      default:
        return step_on_objects(instruction, place);
    }
  }

  // The instructions that use objects on the stack or in the memo.
  Result<void> step_on_objects(unsigned char instruction, std::size_t place) {
    switch (instruction) {
      case 'q':
        return number(1).and_then([&](std::uint64_t key) { return remember(key); });
      case 'r':
        return number(4).and_then([&](std::uint64_t key) { return remember(key); });
      case 0x94:
        return remember(memo_.size());
      case 'h':
        return number(1).and_then([&](std::uint64_t key) { return recall(key); });
      case 'j':
        return number(4).and_then([&](std::uint64_t key) { return recall(key); });
      case 'a':
        return pop().and_then([&](const PickledObject* item) { return add({item}, Kind::list); });
      case 'e':
        return take_marked().and_then(
            [&](const std::vector<const PickledObject*>& items) { return add(items, Kind::list); });
      case 's':
        return set_item();
      case 'u':
        return take_marked().and_then(
            [&](const std::vector<const PickledObject*>& items) { return add(items, Kind::dict); });
      case 'c':
        return push_global_of_lines();
      case 0x93:
        return push_global_of_texts();
      case 'Q':
        return pop().map([&](const PickledObject* id) {
          push(Kind::persistent);
          objects_.back().items = {id};
        });
      case 'R':
        return push_call();
      case 'b':
        return set_state();
      default:
        return fail(ErrorKind::invalid,
                    fmt::format("its data.pkl has the instruction 0x{:02x} at byte {}, which torch.save writes for no "
                                "dict of tensors",
                                instruction, place));
    }
  }

  Result<void> begin_protocol() {
    return number(1).and_then([](std::uint64_t protocol) -> Result<void> {
      if (protocol <= protocol_max) return {};
      return fail(ErrorKind::invalid, fmt::format("its data.pkl is of pickle's protocol {}, and {} is the newest known "
                                                  "here",
                                                  protocol, protocol_max));
    });
  }

  Result<std::string_view> take(std::uint64_t bytes) {
    if (bytes > left_.size()) return torn_pickle("it ends within an instruction");
    const std::string_view taken = left_.substr(0, bytes);
    left_.remove_prefix(bytes);
    return taken;
  }

  // An unsigned number of `bytes` bytes, 8 at most.
  Result<std::uint64_t> number(std::uint64_t bytes) {
    return take(bytes).map([](std::string_view taken) {
      std::uint64_t value = 0;
      for (std::size_t i = taken.size(); i-- > 0;) value = value << 8U | static_cast<unsigned char>(taken[i]);
      return value;
    });
  }

  Result<void> push(Kind kind) {
    objects_.push_back({.kind = kind, .text = {}, .items = {}});
    stack_.push_back(&objects_.back());
    return {};
  }

  Result<void> push_integer(Kind kind, std::int64_t value) {
    push(kind);
    objects_.back().integer = value;
    return {};
  }

  Result<void> push_number(std::uint64_t bytes) {
    return number(bytes).map(
        [&](std::uint64_t value) { push_integer(Kind::integer, static_cast<std::int64_t>(value)); });
  }

  // LONG1 is a two's complement of any length. More than 64 bits are an error.
  Result<void> push_long() {
    const auto length = TRY(number(1));
    const auto bytes = TRY(take(length));
    const bool is_negative = !bytes.empty() && (static_cast<unsigned char>(bytes.back()) & 0x80U) != 0;
    const unsigned char filler = is_negative ? 0xff : 0;
    std::uint64_t value = is_negative ? std::numeric_limits<std::uint64_t>::max() : 0;
    bool fits = true;
    for (std::size_t i = bytes.size(); i-- > 0;) {
      const auto byte = static_cast<unsigned char>(bytes[i]);
      if (i >= sizeof value)
        fits = fits && byte == filler;
      else
        value = value << 8U | byte;
    }
    if (bytes.size() > sizeof value) fits = fits && (static_cast<std::int64_t>(value) < 0) == is_negative;
    if (!fits) return fail(ErrorKind::invalid, "its data.pkl holds a number of more than 64 bits");
    return push_integer(Kind::integer, static_cast<std::int64_t>(value));
  }

  Result<void> push_text(std::uint64_t length_bytes) {
    return number(length_bytes).and_then([&](std::uint64_t length) { return take(length); }).map([&](auto text) {
      push(Kind::text);
      objects_.back().text = text;
    });
  }

  Result<void> push_tuple(std::size_t count) {
    if (stack_.size() < floor() + count) return torn_pickle("an instruction takes an object that does not exist");
    const auto begin = stack_.end() - static_cast<std::ptrdiff_t>(count);
    std::vector<const PickledObject*> items{begin, stack_.end()};
    stack_.erase(begin, stack_.end());
    push(Kind::tuple);
    objects_.back().items = std::move(items);
    return {};
  }

  Result<void> push_global(std::string_view module, std::string_view name) {
    std::string global = fmt::format("{}.{}", module, name);
    if (global.size() > global_bytes_max) return torn_pickle("the name of a global is too long");
    if (!allows_(global)) {
      return fail(ErrorKind::invalid,
                  fmt::format("it would have {} built or called, and only dicts of tensors are read: in Python, "
                              "torch.save(model.state_dict(), FILE)",
                              global));
    }
    push(Kind::global);
    objects_.back().text = std::move(global);
    return {};
  }

  Result<void> push_global_of_lines() {
    const auto line = [&]() -> Result<std::string_view> {
      const std::size_t end = left_.find('\n');
      if (end == std::string_view::npos) return torn_pickle("it ends within a name");
      const std::string_view text = left_.substr(0, end);
      left_.remove_prefix(end + 1);
      return text;
    };
    const auto module = TRY(line());
    return line().and_then([&](std::string_view name) { return push_global(module, name); });
  }

  Result<void> push_global_of_texts() {
    const auto name = TRY(pop());
    const auto module = TRY(pop());
    if (name->kind != Kind::text || module->kind != Kind::text) return torn_pickle("the name of a global is no text");
    return push_global(module->text, name->text);
  }

  Result<void> push_call() {
    const auto arguments = TRY(pop());
    const auto function = TRY(pop());
    if (arguments->kind != Kind::tuple || function->kind != Kind::global)
      return torn_pickle("it calls an object that cannot be called");
    push(Kind::call);
    objects_.back().function = function;
    objects_.back().arguments = arguments;
    return {};
  }

  Result<void> set_state() {
    TRY(pop());
    if (stack_.size() == floor() || stack_.back()->kind != Kind::call)
      return torn_pickle("it sets attributes of an object that has none");
    stack_.back()->has_state = true;
    return {};
  }

  Result<void> set_item() {
    const auto value = TRY(pop());
    return pop().and_then([&](const PickledObject* key) { return add({key, value}, Kind::dict); });
  }

  // Adds `items` to the object on top of the stack. That is a `kind`; for a dict it may also be the result of a call.
  Result<void> add(const std::vector<const PickledObject*>& items, Kind kind) {
    const Kind into_kind = stack_.size() == floor() ? Kind::none : stack_.back()->kind;
    if (into_kind != kind && !(kind == Kind::dict && into_kind == Kind::call))
      return torn_pickle("it adds items to an object that cannot hold them");
    if (kind == Kind::dict && items.size() % 2 != 0) return torn_pickle("a key has no value");
    std::vector<const PickledObject*>& into = stack_.back()->items;
    into.insert(into.end(), items.begin(), items.end());
    return {};
  }

  Result<void> remember(std::uint64_t key) {
    if (stack_.empty()) return torn_pickle("it stores an object that does not exist");
    memo_[key] = stack_.back();
    if (memo_.size() > objects_.size()) return torn_pickle("it stores more objects than there are");
    return {};
  }

  Result<void> recall(std::uint64_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) return torn_pickle("it loads an object that was never stored");
    stack_.push_back(found->second);
    return {};
  }

  Result<const PickledObject*> pop() {
    if (stack_.size() == floor()) return torn_pickle("an instruction takes an object that does not exist");
    const PickledObject* top = stack_.back();
    stack_.pop_back();
    return top;
  }

  Result<std::vector<const PickledObject*>> take_marked() {
    if (marks_.empty()) return torn_pickle("an instruction takes an object that does not exist");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<const PickledObject*> items{begin, stack_.end()};
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }

  // Instructions must not take objects below the last mark.
  [[nodiscard]] std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  std::string_view left_;
  const PickleGraph::Allows& allows_;
  std::deque<PickledObject> objects_;
  std::vector<PickledObject*> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, PickledObject*> memo_;
};

}  // namespace

Result<PickleGraph> PickleGraph::read(std::string_view pickle, const Allows& allows) {
  PickleMachine machine{pickle, allows};
  return machine.run().map([&](const PickledObject* root) { return PickleGraph{machine.take_objects(), root}; });
}

}  // namespace trainyard::checkpoint
