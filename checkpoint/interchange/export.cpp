#include "checkpoint/interchange/export.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "checkpoint/format/safetensors.hpp"
#include "checkpoint/interchange/entry_names.hpp"
#include "checkpoint/interchange/finite.hpp"
#include "checkpoint/interchange/pickle.hpp"
#include "checkpoint/interchange/zip_writer.hpp"
#include "common/try.hpp"

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

/// Reads the tensors of a plan, and keeps which of them are not finite.
class TensorReader {
 public:
  explicit TensorReader(DataStream& data) : data_{data} {}

  [[nodiscard]] Result<void> read(const ExportedTensor& tensor, const TakeBytes& take) {
    NonFiniteCounter counter{tensor.dtype};
    TRY(data_.read(tensor.stored, [&](std::span<const std::byte> bytes) {
      counter.take(bytes);
      return take(bytes);
    }));
    if (counter.count() > 0) not_finite_.push_back({.name = tensor.name, .count = counter.count()});
    return {};
  }
  [[nodiscard]] std::vector<NonFiniteTensor> take_not_finite() { return std::move(not_finite_); }

 private:
  DataStream& data_;
  std::vector<NonFiniteTensor> not_finite_;
};

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

Result<std::vector<NonFiniteTensor>> write_safetensors(DataStream& data, const Manifest& manifest,
                                                       std::span<const ExportedTensor> plan, Sink& sink) {
  std::vector<SafetensorsTensor> tensors;
  for (const ExportedTensor& tensor : plan) {
    if (tensor.dtype.safetensors.empty()) {
      return fail(ErrorKind::invalid,
                  fmt::format("{} is {}, which safetensors files cannot hold: export to a .pt file, or leave it out "
                              "with --only",
                              tensor.name, tensor.dtype.torch));
    }
    if (tensor.name == "__metadata__")
      return fail(ErrorKind::invalid,
                  "safetensors files keep the name __metadata__ for themselves: export to a .pt file");
    tensors.push_back({.name = tensor.name,
                       .dtype = std::string{tensor.dtype.safetensors},
                       .shape = tensor.shape(),
                       .bytes = tensor.bytes()});
  }
  const std::string header = safetensors_header(
      tensors, {{"format", "pt"}, {"step", std::to_string(manifest.id.step)}, {"job", manifest.identity.job}});
  TRY(sink.write(std::as_bytes(std::span{header})));
  TensorReader reader{data};
  for (const ExportedTensor& tensor : plan) {
    TRY(reader.read(tensor, [&](std::span<const std::byte> bytes) { return sink.write(bytes); }));
  }
  return reader.take_not_finite();
}

Result<std::vector<NonFiniteTensor>> write_torch(DataStream& data, std::span<const ExportedTensor> plan, Sink& sink) {
  std::vector<PickledTensor> tensors;
  for (const ExportedTensor& tensor : plan) {
    tensors.push_back({.name = tensor.name,
                       .dtype = tensor.dtype,
                       .shape = tensor.shape(),
                       .bytes = tensor.bytes(),
                       .record = tensors.size()});
  }
  ZipWriter zip{sink};
  TRY(zip.add("archive/data.pkl", pickle_tensors(tensors)));
  TRY(zip.add("archive/byteorder", "little"));
  TensorReader reader{data};
  for (std::size_t record = 0; record < plan.size(); ++record) {
    TRY(zip.begin(fmt::format("archive/data/{}", record), plan[record].bytes()));
    TRY(reader.read(plan[record], [&](std::span<const std::byte> bytes) { return zip.append(bytes); }));
    TRY(zip.end());
  }
  TRY(zip.add("archive/version", "3\n"));
  TRY(zip.finish());
  return reader.take_not_finite();
}

}  // namespace trainyard::checkpoint
