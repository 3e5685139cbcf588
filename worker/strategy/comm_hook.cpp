#include "worker/strategy/comm_hook.hpp"

#include <ATen/core/ivalue.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "include/trainyard/options.hpp"
#include "worker/dist/torch_error.hpp"
#include "worker/strategy/exchange_failed.hpp"

namespace trainyard::strategy {
namespace {

using Future = c10::intrusive_ptr<c10::ivalue::Future>;

constexpr std::string_view hook_words = "the communication hook";

/// Gloo's and c10d's words for a lost connection. A hook may have caught their exception and thrown one of its own,
/// which has only these words left.
constexpr std::array connection_texts{
    std::string_view{"Connection closed by peer"}, std::string_view{"Connection reset by peer"},
    std::string_view{"Timed out waiting"},         std::string_view{"Application timeout caused pair closure"},
    std::string_view{"Operation timed out!"},
};

bool tells_of_connection(const std::exception& error) {
  const std::string_view text = error.what();
  return dist::failed_part(error) == dist::FailedPart::communication ||
         std::ranges::any_of(connection_texts,
                             [&](std::string_view words) { return text.find(words) != std::string_view::npos; });
}

/// Throws what a hook has thrown: as ExchangeFailed if it reports a lost connection, as it is if it reports a failure
/// of the device or of the job, and otherwise as ProgramFailed.
[[noreturn]] void rethrow_of_hook(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const InvalidJob&) {
    throw;
  } catch (const ExchangeFailed&) {  // The module's own all_gather() throws it.
    throw;
  } catch (const c10::AcceleratorError&) {  // A kernel's mistake shows at whichever call waits for the device next.
    throw;
  } catch (const std::exception& error) {
    if (tells_of_connection(error)) {
      throw ExchangeFailed{{.kind = ErrorKind::unavailable, .message = dist::message_of(error), .retry_after = {}}};
    }
    if (dist::failed_part(error) != dist::FailedPart::program) throw;
    throw ProgramFailed{fmt::format("{}: {}", hook_words, dist::message_of(error))};
  } catch (...) {
    throw ProgramFailed{fmt::format("{} threw something that is no std::exception", hook_words)};
  }
}

bool is_lost_connection(const std::exception_ptr& thrown) {
  try {
    rethrow_of_hook(thrown);
  } catch (const ExchangeFailed&) {
    return true;
  } catch (...) {
    return false;
  }
}

/// A future without a value that fails only where `future` fails by a lost connection. A waiting rank takes any error
/// of it for a lost peer; proceed() looks at the others.
Future end_of_waiting(const Future& future) {
  auto end = c10::make_intrusive<c10::ivalue::Future>(c10::NoneType::get());
  future->addCallback([end](c10::ivalue::Future& done) {
    if (done.hasError() && is_lost_connection(done.exception_ptr())) {
      end->setError(done.exception_ptr());
    } else {
      end->markCompleted();
    }
  });
  return end;
}

/// A hook's future as a c10d::Work, which is what waits for collectives take.
class HookWork final : public c10d::Work {
 public:
  explicit HookWork(const Future& future) : future_{future->devices().empty() ? end_of_waiting(future) : future} {}

  bool isCompleted() override { return future_->completed(); }
  [[nodiscard]] bool isSuccess() const override { return future_->completed() && !future_->hasError(); }
  [[nodiscard]] std::exception_ptr exception() const override {
    if (!future_->completed() || !future_->hasError()) return nullptr;
    try {
      rethrow_of_hook(future_->exception_ptr());
    } catch (...) {
      return std::current_exception();
    }
  }
  void synchronize() override { future_->wait(); }
  bool wait(std::chrono::milliseconds /*timeout*/) override {
    future_->wait();
    if (future_->hasError()) rethrow_of_hook(future_->exception_ptr());
    return true;
  }
  Future getFuture() override { return future_; }

 private:
  Future future_;
};

std::string text_of(const torch::Tensor& tensor) {
  std::ostringstream text;
  if (!tensor.defined()) return "no tensor";
  text << tensor.numel() << " elements of " << tensor.dtype() << " on " << tensor.device();
  return text.str();
}

class HookedExchange final : public BucketExchange {
 public:
  HookedExchange(std::vector<ExchangedBucket> buckets, c10::intrusive_ptr<c10d::ProcessGroup> process_group,
                 std::shared_ptr<c10d::CommHookInterface> hook)
      : BucketExchange{std::move(process_group)}, hook_{std::move(hook)} {
    for (ExchangedBucket& bucket : buckets) {
      const torch::Tensor gradients = bucket.flat.slice(0, 0, bucket.flat.numel() - bucket.used.numel());
      buckets_.push_back({.of = std::move(bucket), .gradients = gradients, .future = {}});
    }
  }

  /// A hook divides by the number of ranks itself, as with PyTorch's DDP.
  [[nodiscard]] double factor() const override { return 1.0; }

  [[nodiscard]] c10::intrusive_ptr<c10d::Work> begin(std::size_t index) override {
    Bucket& bucket = buckets_[index];
    c10d::GradBucket shown = show(index);
    const torch::NoGradGuard no_grad;
    try {
      bucket.future = hook_->runHook(shown);
    } catch (...) {
      rethrow_of_hook(std::current_exception());
    }
    if (!bucket.future) throw InvalidJob{fmt::format("{} has returned no future for bucket {}", hook_words, index)};
    return c10::make_intrusive<HookWork>(bucket.future);
  }

  [[nodiscard]] c10::intrusive_ptr<c10d::Work> proceed(std::size_t index) override {
    Bucket& bucket = buckets_[index];
    if (!bucket.future) return {};
    const torch::NoGradGuard no_grad;
    const torch::Tensor result = result_of(std::exchange(bucket.future, {}));
    const torch::Tensor& gradients = bucket.gradients;
    const bool fits = result.defined() && result.numel() == gradients.numel() && result.dtype() == gradients.dtype() &&
                      result.device() == gradients.device();
    if (!fits) {
      throw InvalidJob{
          fmt::format("{}'s result for bucket {} has {}, and the bucket has {}: give the gradients back in the "
                      "bucket's form",
                      hook_words, index, text_of(result), text_of(gradients))};
    }
    if (result.const_data_ptr() != gradients.const_data_ptr()) bucket.gradients.copy_(result.reshape_as(gradients));
    return sum(bucket.of.used);
  }

 private:
  struct Bucket {
    ExchangedBucket of;
    torch::Tensor gradients;  // all gradients of the bucket, a view of its memory
    Future future;            // the hook's, until proceed() has taken its result
  };

  [[nodiscard]] torch::Tensor result_of(const Future& future) const {
    try {
      return hook_->parseHookResult(future->value());
    } catch (...) {
      rethrow_of_hook(std::current_exception());
    }
  }

  [[nodiscard]] c10d::GradBucket show(std::size_t index) const {
    const Bucket& bucket = buckets_[index];
    std::vector<std::size_t> offsets, lengths;
    std::vector<c10::IntArrayRef> sizes;
    std::vector<torch::Tensor> parameters;
    for (const ExchangedBucket::Part& part : bucket.of.parts) {
      offsets.push_back(static_cast<std::size_t>(part.elements.storage_offset() - bucket.gradients.storage_offset()));
      lengths.push_back(static_cast<std::size_t>(part.elements.numel()));
      sizes.push_back(part.of.sizes());
      parameters.push_back(part.of);
    }
    return c10d::GradBucket{index,
                            buckets_.size(),
                            bucket.gradients,
                            std::move(offsets),
                            std::move(lengths),
                            std::move(sizes),
                            std::move(parameters),
                            std::nullopt};
  }

  std::shared_ptr<c10d::CommHookInterface> hook_;
  std::vector<Bucket> buckets_;
};

}  // namespace

MakeExchange by_comm_hook(std::shared_ptr<c10d::CommHookInterface> hook) {
  return [hook = std::move(hook)](std::vector<ExchangedBucket> buckets,
                                  c10::intrusive_ptr<c10d::ProcessGroup> process_group) {
    return std::make_unique<HookedExchange>(std::move(buckets), std::move(process_group), hook);
  };
}

}  // namespace trainyard::strategy
