#include "worker/observe/metric_sums.hpp"

#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

#include "common/check.hpp"
#include "common/try.hpp"

namespace trainyard::observe {
namespace {

/// How much of another rank's text a message shows.
constexpr std::size_t text_shown_max = 200;

/// One rank's part of a metric, as it is sent.
struct Part {
  std::string name;
  Reduce reduce = Reduce::mean;
  bool rank_zero_only = false;
  double value = 0.0;
  double weight = 0.0;
};

std::vector<Part> decode(const std::string& text) {
  std::vector<Part> parts;
  std::istringstream lines{text};
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream fields{line};
    Part part;
    int reduce = 0;
    std::string value, weight;
    fields >> reduce >> part.rank_zero_only >> value >> weight;
    part.reduce = static_cast<Reduce>(reduce);
    part.value = std::strtod(value.c_str(), nullptr);  // Streams read neither hexadecimal numbers nor "nan".
    part.weight = std::strtod(weight.c_str(), nullptr);
    std::getline(fields >> std::ws, part.name);
    parts.push_back(std::move(part));
  }
  return parts;
}

std::string_view name_of(Reduce reduce) {
  switch (reduce) {
    case Reduce::mean:
      return "Reduce::mean";
    case Reduce::sum:
      return "Reduce::sum";
    case Reduce::min:
      return "Reduce::min";
    case Reduce::max:
      return "Reduce::max";
  }
  return "?";
}

double combine(Reduce reduce, double a, double b) {
  switch (reduce) {
    case Reduce::mean:
    case Reduce::sum:
      return a + b;
    // A comparison with not-a-number is false, and not-a-number must stay in the result.
    case Reduce::min:
      return std::isnan(a) || a < b ? a : b;
    case Reduce::max:
      return std::isnan(a) || a > b ? a : b;
  }
  return b;
}

/// Copies a scalar of the host to `device`, without waiting for the device.
torch::Tensor host_scalar_on(const torch::Tensor& scalar, torch::Device device) {
  return torch::full({}, scalar.item<double>(), torch::dtype(torch::kDouble).device(device));
}

/// Puts `a` and `b` on one device, that of a GPU where one of them is there: `log("x", 0.5)` makes a scalar on the
/// host.
void bring_together(torch::Tensor& a, torch::Tensor& b) {
  if (a.device() == b.device()) return;
  if (a.is_cpu()) {
    a = host_scalar_on(a, b.device());
  } else {
    b = host_scalar_on(b, a.device());
  }
}

}  // namespace

void MetricSums::add(std::string_view name, const torch::Tensor& value, double weight, const LogOptions& options) {
  check(name.find('\n') == std::string_view::npos, "a metric's name is one line");
  const torch::NoGradGuard no_grad;
  const torch::Tensor scalar = value.detach().to(torch::kDouble).reshape({});
  const auto known = reductions_.find(name);
  if (known == reductions_.end()) {
    reductions_.emplace(name, options.reduce);
  } else if (known->second != options.reduce) {
    throw std::invalid_argument{fmt::format(
        "log(\"{}\"): the metric is logged as {} in one place and as {} in another: give each a name of its "
        "own",
        name, name_of(known->second), name_of(options.reduce))};
  }
  const auto found = sums_.find(name);
  torch::Tensor weighted = options.reduce == Reduce::mean ? scalar * weight : scalar.clone();
  if (found == sums_.end()) {
    sums_.emplace(std::string{name}, Sum{.value = weighted, .weight = weight, .options = options});
    return;
  }
  Sum& sum = found->second;
  bring_together(sum.value, weighted);
  switch (sum.options.reduce) {
    case Reduce::mean:
    case Reduce::sum:
      sum.value.add_(weighted);
      break;
    case Reduce::min:
      sum.value = torch::minimum(sum.value, weighted);
      break;
    case Reduce::max:
      sum.value = torch::maximum(sum.value, weighted);
      break;
  }
  sum.weight += weight;
}

Result<MetricValues> MetricSums::reduce(checkpoint::Communicator& communicator) {
  return reduce_with_note(communicator, "").map([](Reduced reduced) { return std::move(reduced.values); });
}

Result<MetricSums::Reduced> MetricSums::reduce_with_note(checkpoint::Communicator& communicator,
                                                         std::string_view note) {
  check(note.find('\n') == std::string_view::npos, "a note is one line");
  const auto texts = TRY(communicator.all_gather(std::string{note} + "\n" + encode()));
  sums_.clear();
  Reduced reduced;
  std::map<std::string, Part> total;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    const std::size_t note_bytes = texts[rank].find('\n');
    if (note_bytes == std::string::npos) {
      return fail(ErrorKind::conflict,
                  fmt::format("rank {} sent '{}' where rank {} reduces its metrics: all ranks have to call "
                              "Module::all_gather alike",
                              rank, texts[rank].substr(0, text_shown_max), communicator.rank()));
    }
    reduced.notes.push_back(texts[rank].substr(0, note_bytes));
    for (Part& part : decode(texts[rank].substr(note_bytes + 1))) {
      if (part.rank_zero_only && rank != 0) continue;
      const auto [known, is_new] = total.try_emplace(part.name, part);
      if (is_new) continue;
      known->second.value = combine(part.reduce, known->second.value, part.value);
      known->second.weight += part.weight;
    }
  }
  for (const auto& [name, part] : total) {
    reduced.values[name] = part.reduce == Reduce::mean ? part.value / part.weight : part.value;
  }
  return reduced;
}

std::string MetricSums::encode() const {
  if (sums_.empty()) return {};
  std::vector<torch::Tensor> on_device;
  for (const auto& [name, sum] : sums_) {
    if (!sum.value.is_cpu()) on_device.push_back(sum.value);
  }
  const torch::Tensor copied =
      on_device.empty() ? torch::Tensor{} : torch::stack(on_device).cpu();  // One copy for all.
  std::string text;
  std::int64_t index = 0;
  for (const auto& [name, sum] : sums_) {
    const torch::Tensor value = sum.value.is_cpu() ? sum.value : copied[index++];
    text += fmt::format("{} {:d} {:a} {:a} {}\n", static_cast<int>(sum.options.reduce), sum.options.rank_zero_only,
                        value.item<double>(), sum.weight, name);
  }
  return text;
}

}  // namespace trainyard::observe
