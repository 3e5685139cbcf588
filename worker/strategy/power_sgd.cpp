#include "worker/strategy/power_sgd.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <utility>

namespace trainyard::strategy {
namespace {

/// As min_compression_rate of PyTorch's PowerSGDState.
constexpr std::int64_t compression_rate_min = 2;

struct Shape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

/// The gradient as a matrix in the order of its addresses: its rows are those of the dimension of the largest stride.
Shape matrix_of(const torch::Tensor& gradient) {
  if (gradient.dim() < 2 || gradient.numel() == 0) return {.rows = gradient.numel(), .columns = 1};
  const auto strides = gradient.strides();
  const auto outermost = std::max_element(strides.begin(), strides.end()) - strides.begin();
  const std::int64_t rows = gradient.size(outermost);
  return {.rows = rows, .columns = gradient.numel() / rows};
}

/// QR instead of Gram-Schmidt: the columns are orthogonal too where the matrix has fewer independent ones.
void make_orthogonal(torch::Tensor& matrix) {
  matrix.copy_(std::get<0>(torch::linalg_qr(matrix)));
}

void replace_if(const torch::Tensor& condition, torch::Tensor& target, const torch::Tensor& value) {
  target.copy_(torch::where(condition, value, target));
}

class PowerSgd final : public BucketExchange {
 public:
  PowerSgd(std::vector<ExchangedBucket> buckets, c10::intrusive_ptr<c10d::ProcessGroup> process_group,
           const PowerSgdOptions& options, const std::vector<std::string>& names)
      : BucketExchange{std::move(process_group)}, options_{options}, steps_{torch::zeros({1}, torch::kInt64)} {
    for (ExchangedBucket& bucket : buckets) buckets_.push_back(make_bucket(std::move(bucket), names));
    for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) draw(bucket);
  }

  [[nodiscard]] double factor() const override { return is_started() ? 1.0 : BucketExchange::factor(); }

  [[nodiscard]] c10::intrusive_ptr<c10d::Work> begin(std::size_t index) override {
    Bucket& bucket = buckets_[index];
    bucket.stage = Stage::whole;
    if (!is_started()) return sum(bucket.of.flat);
    const torch::NoGradGuard no_grad;
    if (!options_.has_warm_start) draw(index);
    for (const auto& [from, to] : bucket.whole) to.copy_(from);
    for (Matrix& matrix : bucket.matrices) {
      if (options_.has_error_feedback) matrix.gradient.add_(matrix.error);
      matrix.q.copy_(matrix.last_q);
      make_orthogonal(matrix.q);
      torch::mm_out(matrix.p, matrix.gradient, matrix.q);
    }
    bucket.stage = Stage::first_factors;
    return sum(bucket.first);
  }

  [[nodiscard]] c10::intrusive_ptr<c10d::Work> proceed(std::size_t index) override {
    const torch::NoGradGuard no_grad;
    Bucket& bucket = buckets_[index];
    switch (std::exchange(bucket.stage, Stage::whole)) {
      case Stage::whole:
        return {};
      case Stage::first_factors:
        return send_second_factors(bucket);
      case Stage::second_factors:
        multiply(bucket);
        return {};
    }
    return {};
  }

  void end_step() override { steps_.add_(1); }

  [[nodiscard]] NamedTensors state() const override {
    NamedTensors state{{"powersgd.steps", steps_}};
    for (const Bucket& bucket : buckets_) {
      for (const Matrix& matrix : bucket.matrices) {
        if (options_.has_error_feedback) state.emplace_back("powersgd.error." + matrix.name, matrix.error);
        if (options_.has_warm_start)
          state.emplace_back(fmt::format("powersgd.q{}.{}", options_.rank, matrix.name), matrix.last_q);
      }
    }
    return state;
  }

  [[nodiscard]] std::vector<torch::Tensor> common_state() const override {
    std::vector<torch::Tensor> common{steps_};
    for (const Bucket& bucket : buckets_) {
      for (const Matrix& matrix : bucket.matrices) common.push_back(matrix.last_q);
    }
    return common;
  }

 private:
  struct Matrix {
    std::string name;
    torch::Tensor gradient;  // [n, m], a view of the bucket
    torch::Tensor p;         // [n, r], a view of Bucket::first
    torch::Tensor q;         // [m, r], a view of Bucket::second
    torch::Tensor error;     // [n, m]: what the factors of the last step left out
    torch::Tensor last_q;    // [m, r]: with the warm start the second factor of the last step
  };
  enum class Stage { whole, first_factors, second_factors };  // what was sent last
  struct Bucket {
    ExchangedBucket of;
    torch::Tensor first;                                         // what is sent whole, then the first factors
    torch::Tensor second;                                        // the second factors
    std::vector<std::pair<torch::Tensor, torch::Tensor>> whole;  // views of the bucket and of `first`
    std::vector<Matrix> matrices;
    torch::Tensor is_finite;  // a scalar: true where the first factors are finite
    Stage stage = Stage::whole;
  };

  [[nodiscard]] bool is_started() const { return *steps_.const_data_ptr<std::int64_t>() >= options_.start_step; }

  [[nodiscard]] Bucket make_bucket(ExchangedBucket of, const std::vector<std::string>& names) const {
    const auto sent_rank = [&](const Shape& shape) { return std::min({shape.rows, shape.columns, options_.rank}); };
    const auto is_worth_it = [&](const Shape& shape) {
      return (shape.rows + shape.columns) * sent_rank(shape) * compression_rate_min < shape.rows * shape.columns;
    };
    std::int64_t whole = of.used.numel(), first_factors = 0, second_factors = 0;
    for (const auto& part : of.parts) {
      const Shape shape = matrix_of(part.gradient);
      const bool is_factored = is_worth_it(shape);
      whole += is_factored ? 0 : part.elements.numel();
      first_factors += is_factored ? shape.rows * sent_rank(shape) : 0;
      second_factors += is_factored ? shape.columns * sent_rank(shape) : 0;
    }
    Bucket bucket;
    bucket.first = torch::zeros({whole + first_factors}, of.flat.options());
    bucket.second = torch::zeros({second_factors}, of.flat.options());
    std::int64_t whole_begin = 0, p_begin = whole, q_begin = 0;
    const auto send_whole = [&](const torch::Tensor& elements) {
      bucket.whole.emplace_back(elements, bucket.first.slice(0, whole_begin, whole_begin + elements.numel()));
      whole_begin += elements.numel();
    };
    for (const auto& part : of.parts) {
      const Shape shape = matrix_of(part.gradient);
      if (!is_worth_it(shape)) {
        send_whole(part.elements);
        continue;
      }
      const std::int64_t rank = sent_rank(shape);
      const std::int64_t p_end = p_begin + shape.rows * rank, q_end = q_begin + shape.columns * rank;
      bucket.matrices.push_back({.name = names[part.parameter],
                                 .gradient = part.elements.view({shape.rows, shape.columns}),
                                 .p = bucket.first.slice(0, p_begin, p_end).view({shape.rows, rank}),
                                 .q = bucket.second.slice(0, q_begin, q_end).view({shape.columns, rank}),
                                 .error = torch::zeros({shape.rows, shape.columns}, of.flat.options()),
                                 .last_q = torch::zeros({shape.columns, rank}, of.flat.options())});
      p_begin = p_end;
      q_begin = q_end;
    }
    send_whole(of.used);
    bucket.of = std::move(of);
    return bucket;
  }

  /// Gives the bucket's second factors random values, which all ranks have alike and which differ between steps.
  void draw(std::size_t index) {
    const auto step = static_cast<std::uint64_t>(*steps_.const_data_ptr<std::int64_t>());
    auto generator = at::detail::createCPUGenerator(options_.seed + step * buckets_.size() + index);
    for (Matrix& matrix : buckets_[index].matrices) {
      const auto options = at::TensorOptions{matrix.last_q.scalar_type()};
      matrix.last_q.copy_(torch::randn(matrix.last_q.sizes(), generator, options));
    }
  }

  [[nodiscard]] c10::intrusive_ptr<c10d::Work> send_second_factors(Bucket& bucket) {
    bucket.is_finite = bucket.first.isfinite().all();
    for (const auto& [to, from] : bucket.whole) to.copy_(from / world_size());
    if (bucket.matrices.empty()) return {};
    for (Matrix& matrix : bucket.matrices) {
      make_orthogonal(matrix.p);
      torch::mm_out(matrix.q, matrix.gradient.t(), matrix.p);
    }
    bucket.stage = Stage::second_factors;
    return sum(bucket.second);
  }

  void multiply(Bucket& bucket) const {
    bucket.second.div_(world_size());
    // Equal on all ranks, since it was computed from sums over all ranks.
    const torch::Tensor is_finite = bucket.is_finite.logical_and(bucket.second.isfinite().all());
    for (Matrix& matrix : bucket.matrices) {
      const torch::Tensor mean = torch::mm(matrix.p, matrix.q.t());
      if (options_.has_error_feedback) replace_if(is_finite, matrix.error, matrix.gradient - mean);
      if (options_.has_warm_start) replace_if(is_finite, matrix.last_q, matrix.q);
      matrix.gradient.copy_(mean);
    }
  }

  PowerSgdOptions options_;
  std::vector<Bucket> buckets_;
  torch::Tensor steps_;  // int64 [1], on the host: the steps exchanged so far
};

}  // namespace

MakeExchange power_sgd(PowerSgdOptions options, std::vector<std::string> names) {
  return [options, names = std::move(names)](std::vector<ExchangedBucket> buckets,
                                             c10::intrusive_ptr<c10d::ProcessGroup> process_group) {
    return std::make_unique<PowerSgd>(std::move(buckets), std::move(process_group), options, names);
  };
}

}  // namespace trainyard::strategy
