#include "worker/dist/host_reducer.hpp"

#include <ATen/ops/full.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/try.hpp"
#include "worker/dist/torch_error.hpp"
#include "worker/dist/wait_or_fail.hpp"
#include "worker/rank/rank_link.hpp"

namespace trainyard::dist {
namespace {

class GlooReducer final : public HostReducer {
 public:
  GlooReducer(c10::intrusive_ptr<c10d::ProcessGroupGloo> group, std::chrono::milliseconds deadline,
              rank::RankLink& link)
      : group_{std::move(group)}, deadline_{deadline}, link_{link} {}

  [[nodiscard]] std::int64_t world_size() const override { return group_->getSize(); }

  [[nodiscard]] Result<void> sum(const at::Tensor& tensor) override {
    return reduce(tensor, c10d::ReduceOp::SUM, "a background sum over the ranks");
  }

  [[nodiscard]] Result<bool> any(bool mine) override {
    const at::Tensor flag = at::full({1}, mine ? 1 : 0, at::kInt);
    TRY(reduce(flag, c10d::ReduceOp::MAX, "a background agreement of the ranks"));
    return flag.item<std::int32_t>() != 0;
  }

 private:
  Result<void> reduce(const at::Tensor& tensor, c10d::ReduceOp::RedOpType op, std::string_view what) {
    if (failure_) return tl::unexpected(*failure_);
    auto done = reduce_unless_failed(tensor, op, what);
    if (!done) failure_ = done.error();
    return done;
  }

  Result<void> reduce_unless_failed(const at::Tensor& tensor, c10d::ReduceOp::RedOpType op, std::string_view what) {
    c10::intrusive_ptr<c10d::Work> work;
    try {
      std::vector<at::Tensor> message{tensor};
      c10d::AllreduceOptions options;
      options.reduceOp = op;
      work = group_->allreduce(message, options);
    } catch (const std::exception& error) {
      return fail(ErrorKind::unavailable, std::string{what} + " could not start: " + message_of(error));
    }
    return wait_or_fail(work, link_, deadline_, what);
  }

  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  std::chrono::milliseconds deadline_;
  rank::SilentLink link_;
  std::optional<Error> failure_;  // of the first failed call: the ranks no longer agree on the next one
};

}  // namespace

std::unique_ptr<HostReducer> make_gloo_reducer(c10::intrusive_ptr<c10d::ProcessGroupGloo> group,
                                               std::chrono::milliseconds deadline, rank::RankLink& link) {
  return std::make_unique<GlooReducer>(std::move(group), deadline, link);
}

}  // namespace trainyard::dist
