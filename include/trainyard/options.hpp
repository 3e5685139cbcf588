#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

/// Thrown where the job asks for what this program cannot do: a wrong option, data of a wrong shape. The job then fails
/// at once with what() as its message, because every further attempt would end the same way. After any other exception
/// the group is restarted, as often as spec.restart allows.
class InvalidJob : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// The inclusive bounds of a number.
template <typename Number>
struct Range {
  Number min = std::numeric_limits<Number>::lowest();
  Number max = std::numeric_limits<Number>::max();
};

/// The job's `training.model.options`, which a model's constructor takes, or its `training.data.options`, of which a
/// DataSource has some:
///
///   explicit MyModel(const trainyard::Options& options) : width_{options.integer("width", 64, {.min = 1})} {}
///
/// Each function returns the option of that name, or `otherwise` where the job does not give it; an option without
/// `otherwise` must be given. Throws InvalidJob, naming the option, for a missing option, another type, or a number out
/// of its range. An option that is null is not given. An option that the job gives and nothing ever asks for fails the
/// job as well.
class Options {
 public:
  Options();
  /// `json`: a JSON object; `path`: its place, for messages. Throws InvalidJob when it is none.
  explicit Options(std::string_view json, std::string path = "training.model.options");

  [[nodiscard]] std::int64_t integer(std::string_view name, std::optional<std::int64_t> otherwise = {},
                                     const Range<std::int64_t>& range = {}) const;
  [[nodiscard]] double number(std::string_view name, std::optional<double> otherwise = {},
                              const Range<double>& range = {}) const;
  [[nodiscard]] bool boolean(std::string_view name, std::optional<bool> otherwise = {}) const;
  /// `choices`: the allowed texts; none: all are.
  [[nodiscard]] std::string text(std::string_view name, std::optional<std::string> otherwise = {},
                                 const std::vector<std::string>& choices = {}) const;
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view name,
                                                   std::optional<std::vector<std::int64_t>> otherwise = {},
                                                   const Range<std::int64_t>& range = {}) const;
  [[nodiscard]] std::vector<double> numbers(std::string_view name, std::optional<std::vector<double>> otherwise = {},
                                            const Range<double>& range = {}) const;
  [[nodiscard]] std::vector<std::string> texts(std::string_view name,
                                               std::optional<std::vector<std::string>> otherwise = {}) const;
  /// The options within the object `name`; without that object, options of which none is given.
  [[nodiscard]] Options object(std::string_view name) const;

  /// True when the job gives the option. This asks for it, as the other functions do.
  [[nodiscard]] bool contains(std::string_view name) const;
  /// All options as JSON text, for a program that reads them by itself: check_all_asked() then accepts every option.
  [[nodiscard]] std::string json_text() const;

  /// Throws InvalidJob when the job gives an option that nothing has asked for; the message says that `reader` has no
  /// such option. The worker calls it once the model is made, and once the data is open.
  void check_all_asked(std::string_view reader = "the model") const;

 private:
  struct Node;
  explicit Options(std::shared_ptr<Node> node);
  std::shared_ptr<Node> node_;
};

}  // namespace trainyard
