// A training program on the example of docs/data.md for data without a size, for stream_rank_test.
#include <trainyard/trainyard.hpp>

#include <torch/torch.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

#include "tests/worker/models/data_page_streams.hpp"

/// A stream that does not keep to the rules. options.fault of training.data: "throws", "tooMany", "rows" or "empty".
class FaultyStream final : public trainyard::SampleStream {
 public:
  explicit FaultyStream(std::string fault) : fault_{std::move(fault)} {}
  trainyard::Batch next(std::int64_t count) override {
    if (fault_ == "throws") throw std::runtime_error{"the feed is torn"};
    if (fault_ == "empty") return {};
    const std::int64_t ids = fault_ == "rows" ? count - 1 : count + 1;
    return {.inputs = torch::zeros({count + 1, 1}), .targets = {}, .ids = torch::arange(ids, torch::kInt64)};
  }

 private:
  std::string fault_;
};

class Faulty final : public trainyard::IterableDataset {
 public:
  explicit Faulty(std::string fault) : fault_{std::move(fault)} {}
  std::unique_ptr<trainyard::SampleStream> stream(std::int64_t /*epoch*/) const override {
    return std::make_unique<FaultyStream>(fault_);
  }

 private:
  std::string fault_;
};

bool is_first_attempt() {
  const char* const attempt = std::getenv("TRAINYARD_ATTEMPT");  // NOLINT(concurrency-mt-unsafe): no thread sets it
  return attempt != nullptr && std::string_view{attempt} == "1";
}

/// Fits a line, from 0. Logs its slope and offset before each step. In the first attempt rank 1 is killed in step 46.
class LineFit final : public trainyard::Module {
 public:
  explicit LineFit(const trainyard::Options& /*options*/) {}

  trainyard::StepOutput training_step(const trainyard::Batch& batch, std::int64_t /*batch_index*/) override {
    if (global_step() == 45 && rank() == 1 && is_first_attempt()) std::raise(SIGKILL);
    log("slope", slope_);
    log("offset", offset_);
    return torch::mse_loss(batch.inputs * slope_ + offset_, batch.targets);
  }
  std::optional<trainyard::Datasets> open_datasets(const trainyard::DataSource& source) override {
    const std::string fault = source.options.text("fault", "");
    if (!fault.empty()) return trainyard::Datasets{.iterable_train = std::make_unique<Faulty>(fault)};
    return trainyard::Datasets{.iterable_train = std::make_unique<Lines>(source)};
  }

 private:
  torch::Tensor slope_ = register_parameter("slope", torch::zeros({1}));
  torch::Tensor offset_ = register_parameter("offset", torch::zeros({1}));
};

}  // namespace

TRAINYARD_MAIN(LineFit)
