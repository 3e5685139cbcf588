#include "worker/launcher/resolver.hpp"

#include <gtest/gtest.h>
#include <poll.h>

namespace trainyard::launcher {
namespace {

bool is_readable_within(const Resolver& resolver, int milliseconds) {
  pollfd answer{.fd = resolver.file(), .events = POLLIN, .revents = 0};
  return ::poll(&answer, 1, milliseconds) == 1;
}

TEST(Resolver, AnswersOnceForEachQuestion) {
  Resolver resolver{"127.0.0.1", 29'500};
  EXPECT_FALSE(is_readable_within(resolver, 0)) << "nothing was asked";
  for (int question = 0; question < 2; ++question) {
    resolver.ask();
    ASSERT_TRUE(is_readable_within(resolver, 10'000));
    const auto answer = resolver.take_answer();
    ASSERT_TRUE(answer);
    ASSERT_TRUE(*answer) << answer->error().message;
    EXPECT_EQ((*answer)->size(), 1U);
    EXPECT_FALSE(is_readable_within(resolver, 50)) << "the name was looked up again unasked";
    EXPECT_FALSE(resolver.take_answer());
  }
}

}  // namespace
}  // namespace trainyard::launcher
