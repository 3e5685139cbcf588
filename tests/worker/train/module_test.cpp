#include "include/trainyard/module.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <stdexcept>
#include <string>

namespace trainyard {
namespace {

class LoggingModule final : public Module {
 public:
  [[nodiscard]] StepOutput training_step(const Batch& /*batch*/, std::int64_t /*batch_index*/) override { return {}; }
  void log_as(const std::string& name) { log(name, 1.0); }
};

TEST(Module, RefusesMetricsWhoseNameIsNoLine) {
  LoggingModule module;
  for (const std::string name : {"", "two\nlines", " blank", "tab\t"}) {
    EXPECT_THROW(module.log_as(name), std::invalid_argument) << name;
  }
  EXPECT_THROW(module.log_as(std::string(201, 'x')), std::invalid_argument);
  module.log_as("loss/of a long name, " + std::string(150, 'x'));
}

}  // namespace
}  // namespace trainyard
