#include "checkpoint/interchange/export_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include "checkpoint/interchange/entry_names.hpp"

namespace trainyard::checkpoint {
namespace {

std::optional<std::string> exported_name(const StoredTensor& tensor, const ExportChoice& choice) {
  std::string name = tensor.name();
  if (!choice.is_all) {
    if (!name.starts_with(model_prefix) || tensor.rank) return std::nullopt;
    name.erase(0, model_prefix.size());
  }
  return name.starts_with(choice.prefix) ? std::optional{name} : std::nullopt;
}

tl::unexpected<Error> nothing_chosen(const Manifest& manifest, const ExportChoice& choice) {
  const std::string example = manifest.entries.empty() ? "none" : manifest.entries.front().name;
  if (!choice.prefix.empty()) {
    return fail(ErrorKind::not_found,
                fmt::format("no tensor{} has a name that begins with '{}': `trainyard checkpoints show` lists them{}",
                            choice.is_all ? "" : " of the model", choice.prefix,
                            choice.is_all ? "" : " (here without their model. in front)"));
  }
  return fail(ErrorKind::not_found,
              fmt::format("the checkpoint holds no model's tensors, whose names begin with model. (its first is {}): "
                          "export all with --all",
                          example));
}

}  // namespace

Result<std::vector<ExportedTensor>> plan_export(const Manifest& manifest, const ExportChoice& choice) {
  std::vector<ExportedTensor> plan;
  std::set<std::string> names;
  for (StoredTensor& tensor : stored_tensors(manifest)) {
    auto name = exported_name(tensor, choice);
    if (!name) continue;
    if (!tensor.fault.empty())
      return fail(ErrorKind::corrupt,
                  fmt::format("the manifest of step {}: {}: {}", manifest.id.step, tensor.name(), tensor.fault));
    const auto dtype = find_dtype(tensor.info.dtype);
    if (!dtype) {
      return fail(ErrorKind::invalid,
                  fmt::format("{} is of type {}, which cannot be exported: leave it out with --only", tensor.name(),
                              tensor.info.dtype));
    }
    if (!names.insert(*name).second)
      return fail(ErrorKind::invalid, fmt::format("two tensors would be named {}: choose by --only", *name));
    plan.push_back({.name = std::move(*name), .dtype = *dtype, .stored = std::move(tensor)});
  }
  if (plan.empty()) return nothing_chosen(manifest, choice);
  std::stable_sort(plan.begin(), plan.end(), [](const ExportedTensor& a, const ExportedTensor& b) {
    return a.dtype.element_bytes > b.dtype.element_bytes;
  });
  return plan;
}

}  // namespace trainyard::checkpoint
