#include <fmt/format.h>

#include "checkpoint/interchange/export.hpp"
#include "checkpoint/interchange/pickle.hpp"
#include "checkpoint/interchange/zip_writer.hpp"

namespace trainyard::checkpoint {

Result<void> write_torch(DataStream& data, std::span<const ExportedTensor> plan, Sink& sink) {
  std::vector<PickledTensor> tensors;
  for (const ExportedTensor& tensor : plan) {
    tensors.push_back({.name = tensor.name,
                       .dtype = tensor.dtype,
                       .shape = tensor.shape(),
                       .bytes = tensor.bytes(),
                       .record = tensors.size()});
  }
  ZipWriter zip{sink};
  auto done = zip.add("archive/data.pkl", pickle_tensors(tensors)).and_then([&] {
    return zip.add("archive/byteorder", "little");
  });
  for (std::size_t record = 0; done && record < plan.size(); ++record) {
    done = zip.begin(fmt::format("archive/data/{}", record), plan[record].bytes())
               .and_then([&] {
                 return data.read(plan[record].stored,
                                  [&](std::span<const std::byte> bytes) { return zip.append(bytes); });
               })
               .and_then([&] { return zip.end(); });
  }
  return done.and_then([&] { return zip.add("archive/version", "3\n"); }).and_then([&] { return zip.finish(); });
}

}  // namespace trainyard::checkpoint
