// A training program whose model has process sets, for process_set_rank_test.
#include <trainyard/trainyard.hpp>

#include <torch/torch.h>

#include <csignal>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

/// Sets of three ranks: "ends", ranks 0 and 2, and "middle", rank 1. options.case:
/// "": each step and each validation's batch exchanges values in both sets, and fails when one is wrong.
/// "dies": rank 2 is killed in its second step, while rank 0 waits for it in a collective of "ends".
/// "sets differ": rank 2 names other ranks.
class ProcessSetModel final : public trainyard::Module {
 public:
  explicit ProcessSetModel(const trainyard::Options& options)
      : case_{options.text("case", "")}, weight_{register_parameter("weight", torch::ones({3}))} {}

  [[nodiscard]] std::map<std::string, std::vector<std::int64_t>> configure_process_sets(
      std::int64_t world_size) override {
    const std::string_view rank{std::getenv("RANK")};  // NOLINT(concurrency-mt-unsafe): no other thread sets variables.
    if (case_ == "sets differ" && rank == "2") return {{"ends", {0, 2}}, {"middle", {0}}};
    return {{"ends", {world_size - 1, 0}}, {"middle", {1}}};
  }

  [[nodiscard]] trainyard::StepOutput training_step(const trainyard::Batch& /*batch*/,
                                                    std::int64_t /*batch_index*/) override {
    if (case_ == "dies" && rank() == 2 && global_step() == 1) std::raise(SIGKILL);
    exchange("of_ends");
    return weight_.sum();
  }

  trainyard::StepOutput validation_step(const trainyard::Batch& /*batch*/, std::int64_t batch_index) override {
    if (batch_index == 0) exchange("val_of_ends");
    return {};
  }

 private:
  void exchange(std::string_view metric) {
    if (process_set("middle").includes_this_rank()) {
      check(process_set("middle").all_reduce(own(), trainyard::ReduceOp::sum), {1.0F});
      return;
    }
    const trainyard::ProcessSet& ends = process_set("ends");
    const torch::Tensor mean = ends.all_reduce(own());
    check(mean, {1.0F});
    check(ends.all_gather(own()).flatten(), {0.0F, 2.0F});
    check(ends.broadcast(own(), 2), {2.0F});
    log(metric, mean + 0.25 * static_cast<double>(ends.rank()));
  }
  [[nodiscard]] torch::Tensor own() const { return torch::full({1}, static_cast<float>(rank())); }
  static void check(const torch::Tensor& values, const std::vector<float>& expected) {
    if (!torch::equal(values, torch::tensor(expected))) throw std::runtime_error{"a process set gave wrong values"};
  }

  std::string case_;
  torch::Tensor weight_;
};

}  // namespace

TRAINYARD_MAIN(ProcessSetModel)
