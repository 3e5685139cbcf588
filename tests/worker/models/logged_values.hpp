#pragma once

#include <torch/types.h>

#include <map>
#include <string>
#include <string_view>

#include "worker/observe/images.hpp"
#include "worker/observe/metric_sinks.hpp"

namespace trainyard::models {

/// Keeps the last value of each metric and the last image of each name that a module logs.
struct LoggedValues final : observe::MetricSink, observe::ImageSink {
  void set_batch_size(std::int64_t /*samples*/) override {}
  void log(std::string_view name, const torch::Tensor& value, const LogOptions& /*options*/) override {
    values[std::string{name}] = value.item<double>();
  }
  void log_image(std::string_view name, const torch::Tensor& image) override { images[std::string{name}] = image; }

  std::map<std::string, double> values;
  std::map<std::string, torch::Tensor> images;
};

}  // namespace trainyard::models
