#include "worker/train/sample_record.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

namespace trainyard::train {

SampleRecord::SampleRecord(int descriptor, std::string file, std::int64_t attempt, std::int64_t rank)
    : descriptor_{descriptor}, file_{std::move(file)}, attempt_{attempt}, rank_{rank} {}

SampleRecord::SampleRecord(SampleRecord&& other) noexcept
    : descriptor_{std::exchange(other.descriptor_, -1)},
      file_{std::move(other.file_)},
      attempt_{other.attempt_},
      rank_{other.rank_} {}

SampleRecord::~SampleRecord() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<SampleRecord> SampleRecord::open(const std::string& file, std::int64_t attempt, std::int64_t rank) {
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor < 0)
    return fail(ErrorKind::io, fmt::format("opening {} to record samples: {}", file, std::strerror(errno)));
  return SampleRecord{descriptor, file, attempt, rank};
}

Result<void> SampleRecord::write(std::int64_t step, const torch::Tensor& ids) {
  const torch::Tensor dense = ids.contiguous();
  const std::span<const std::int64_t> values{dense.data_ptr<std::int64_t>(), static_cast<std::size_t>(dense.numel())};
  // One write() per line: with O_APPEND the lines of several ranks do not mix.
  const std::string line = fmt::format("{{\"attempt\": {}, \"step\": {}, \"rank\": {}, \"ids\": [{}]}}\n", attempt_,
                                       step, rank_, fmt::join(values, ", "));
  if (::write(descriptor_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    return fail(ErrorKind::io, fmt::format("recording samples in {}: {}", file_, std::strerror(errno)));
  }
  return {};
}

}  // namespace trainyard::train
