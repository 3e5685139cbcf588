#include "worker/train/program_call.hpp"

#include <algorithm>
#include <exception>

namespace trainyard::train {
namespace {

// The calls follow the thread's stack, and most of them are far from whoever handles the exception.
thread_local int depth = 0;
thread_local std::string failed;

}  // namespace

ProgramCall::ProgramCall(std::string_view words, std::string_view more)
    : words_{words}, more_{more}, exceptions_before_{std::uncaught_exceptions()} {
  if (depth++ == 0) failed.clear();
  words_before_ = failed.size();
}

ProgramCall::ProgramCall(std::string_view words, std::int64_t number) : ProgramCall{words} {
  number_ = number;
}

ProgramCall::~ProgramCall() {
  --depth;
  if (std::uncaught_exceptions() == exceptions_before_) {
    failed.resize(words_before_);  // The exception of an inner call was handled.
    return;
  }
  failed += words_;
  failed += more_;
  if (number_) failed += std::to_string(*number_);
}

std::string failed_call() {
  return failed.substr(std::min(failed.find_first_not_of(' '), failed.size()));
}

}  // namespace trainyard::train
