#include "worker/train/callbacks.hpp"

#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <exception>
#include <set>
#include <utility>

#include "common/logging.hpp"
#include "include/trainyard/options.hpp"

namespace trainyard::train {

Callbacks::Callbacks(Module& module) : module_{module} {
  const ProgramCall call{"configure_callbacks()"};
  callbacks_ = module.configure_callbacks();
  std::set<std::string> names;
  for (const auto& callback : callbacks_) {
    if (callback == nullptr) throw InvalidJob{"configure_callbacks() returned a callback that is nullptr"};
    const std::string name = callback->name();
    if (name.empty() || !names.insert(name).second) {
      throw InvalidJob{fmt::format(
          "configure_callbacks() returned a second callback of the name '{}', or one without a name: give each a name "
          "of its own",
          name)};
    }
    names_.push_back(name);
  }
}

std::vector<checkpoint::Entry> Callbacks::entries() {
  std::vector<checkpoint::Entry> entries;
  std::set<std::string> names;
  for (const auto& callback : callbacks_) {
    for (const auto& [name, tensor] : callback->state()) {
      const std::string full = fmt::format("{}{}.{}", checkpoint::callback_prefix, callback->name(), name);
      if (!tensor.defined() || !names.insert(full).second) {
        throw InvalidJob{fmt::format("the callback {} has state '{}' that is undefined, or two of that name",
                                     callback->name(), name)};
      }
      entries.push_back({.name = full, .placement = checkpoint::Placement::rank0, .tensor = tensor.detach()});
    }
  }
  return entries;
}

void Callbacks::restore(bool is_ended) {
  is_ended_ = is_ended;
  was_ended_before_ = is_ended;
  each("after_restore()", &Callback::after_restore);
}

void Callbacks::step_end(const torch::Tensor& losses, std::int64_t count) {
  if (callbacks_.empty()) return;
  const torch::Tensor loss = count == 1 ? losses : losses / count;
  each("on_step_end()", &Callback::on_step_end, module_, loss);
}

rank::RankEnd Callbacks::watch(const std::function<rank::RankEnd()>& train) {
  try {
    return train();
  } catch (...) {
    const std::exception_ptr thrown = std::current_exception();
    for (const auto& callback : callbacks_) {
      try {
        callback->on_exception(module_, thrown);
      } catch (const std::exception& error) {
        logging::warn("a callback failed in on_exception()", {{"callback", callback->name()}, {"error", error.what()}});
      } catch (...) {
        logging::warn("a callback threw in on_exception() what is no std::exception", {{"callback", callback->name()}});
      }
    }
    throw;
  }
}

bool Callbacks::wants_stop() const {
  return std::ranges::any_of(callbacks_, [](const auto& callback) { return callback->wants_stop(); });
}

std::optional<std::string> Callbacks::reason_to_stop() const {
  if (!is_ended_) return std::nullopt;
  for (const auto& callback : callbacks_) {
    if (callback->wants_stop()) return fmt::format("ended as the callback {} asked", callback->name());
  }
  return was_ended_before_ ? "ended as a callback asked before the restart"
                           : "ended as a callback of another rank asked";
}

}  // namespace trainyard::train
