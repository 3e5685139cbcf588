#include <fmt/format.h>

#include <string>

#include "checkpoint/format/safetensors.hpp"
#include "checkpoint/interchange/export.hpp"

namespace trainyard::checkpoint {

Result<void> write_safetensors(DataStream& data, const Manifest& manifest, std::span<const ExportedTensor> plan,
                               Sink& sink) {
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
  auto done = sink.write(std::as_bytes(std::span{header}));
  for (std::size_t i = 0; done && i < plan.size(); ++i) {
    done = data.read(plan[i].stored, [&](std::span<const std::byte> bytes) { return sink.write(bytes); });
  }
  return done;
}

}  // namespace trainyard::checkpoint
