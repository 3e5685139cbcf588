#include "worker/strategy/bucket_assignment.hpp"

#include <algorithm>
#include <utility>

namespace trainyard::strategy {
namespace {

struct OpenBucket {
  torch::ScalarType dtype;
  torch::Device device;
  BucketIndices indices;
  std::int64_t bytes = 0;
  bool is_first_of_its_kind = true;
};

}  // namespace

std::vector<BucketIndices> assign_buckets(const std::vector<torch::Tensor>& parameters, const BucketLimits& limits) {
  std::vector<OpenBucket> open;
  std::vector<BucketIndices> full;
  for (std::size_t index = parameters.size(); index-- > 0;) {
    const torch::Tensor& parameter = parameters[index];
    auto bucket = std::find_if(open.begin(), open.end(), [&](const OpenBucket& candidate) {
      return candidate.dtype == parameter.scalar_type() && candidate.device == parameter.device();
    });
    if (bucket == open.end()) {
      bucket = open.insert(open.end(), {.dtype = parameter.scalar_type(), .device = parameter.device(), .indices = {}});
    }
    bucket->indices.push_back(index);
    bucket->bytes += static_cast<std::int64_t>(parameter.nbytes());
    if (bucket->bytes >= (bucket->is_first_of_its_kind ? limits.first_bytes : limits.bytes)) {
      full.push_back(std::exchange(bucket->indices, {}));
      bucket->bytes = 0;
      bucket->is_first_of_its_kind = false;
    }
  }
  for (OpenBucket& bucket : open) {
    if (!bucket.indices.empty()) full.push_back(std::move(bucket.indices));
  }
  // In the order of the parameter that a backward pass reaches first: the ranks reduce the buckets in this order.
  std::stable_sort(full.begin(), full.end(),
                   [](const BucketIndices& a, const BucketIndices& b) { return a.front() > b.front(); });
  return full;
}

}  // namespace trainyard::strategy
