#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trainyard::train {

/// Marks a call of something that the program has written: a function of its module, data set, optimizer or callback.
/// When an exception leaves it, failed_call() names the call. Calls nest, each in the words that follow the inner
/// one's:
///
///     const ProgramCall step{" in step ", 7};
///     const ProgramCall call{"training_step()"};  // failed_call() gives "training_step() in step 7"
///
/// Each thread has its own calls. An exception that another thread hands over counts for the thread that rethrows it.
class ProgramCall {
 public:
  /// The words outlive the call. They are put together only after an exception.
  explicit ProgramCall(std::string_view words, std::string_view more = {});
  ProgramCall(std::string_view words, std::int64_t number);
  ProgramCall(const ProgramCall&) = delete;
  ProgramCall& operator=(const ProgramCall&) = delete;
  ~ProgramCall();

 private:
  std::string_view words_;
  std::string_view more_;
  std::optional<std::int64_t> number_;
  int exceptions_before_;
  std::size_t words_before_ = 0;
};

/// Where the exception was thrown that left this thread's last outermost call; empty when none has left it.
[[nodiscard]] std::string failed_call();

}  // namespace trainyard::train
