#include "tests/docs/program.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <utility>
#include <variant>

namespace trainyard::docs {
namespace {

constexpr std::chrono::minutes patience{9};  // Only a broken program takes that long, however busy the machine is.

}  // namespace

void Program::start(const std::vector<std::string>& arguments, std::vector<std::string> environment) {
  auto group = local::ProcessGroup::start({.arguments = arguments,
                                           .environment = std::move(environment),
                                           .working_directory = folder_.path(),
                                           .output_path = folder_.file("out"),
                                           .error_path = folder_.file("out")});
  ASSERT_TRUE(group) << group.error().message;
  group_ = *std::move(group);
}

int Program::wait() {
  pollfd readable{.fd = group_->event_fd(), .events = POLLIN, .revents = 0};
  while (::poll(&readable, 1, static_cast<int>(std::chrono::milliseconds{patience}.count())) == 1) {
    const auto event = group_->next_event();
    if (event && std::holds_alternative<local::ProcessEnded>(*event))
      return std::get<local::ProcessEnded>(*event).exit_code;
  }
  ADD_FAILURE() << "it did not end";
  return -1;
}

}  // namespace trainyard::docs
