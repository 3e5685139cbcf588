#include "common/result.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "common/check.hpp"

namespace trainyard {
namespace {

TEST(ErrorKinds, HaveTheirNamesAndOnlySomeMayPass) {
  struct Row {
    ErrorKind kind;
    std::string_view name;
    bool may_pass;
  };
  const std::vector<Row> rows{
      {ErrorKind::invalid, "invalid", false},
      {ErrorKind::not_found, "not_found", false},
      {ErrorKind::already_exists, "already_exists", false},
      {ErrorKind::conflict, "conflict", true},
      {ErrorKind::gone, "gone", false},
      {ErrorKind::unauthorized, "unauthorized", false},
      {ErrorKind::forbidden, "forbidden", false},
      {ErrorKind::throttled, "throttled", true},
      {ErrorKind::unavailable, "unavailable", true},
      {ErrorKind::timeout, "timeout", true},
      {ErrorKind::corrupt, "corrupt", false},
      {ErrorKind::io, "io", false},
      {ErrorKind::cancelled, "cancelled", false},
      {ErrorKind::internal, "internal", false},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(to_string(row.kind), row.name);
    EXPECT_EQ(is_transient(row.kind), row.may_pass) << row.name;
  }
}

TEST(Fail, PutsItsContextBeforeTheMessageAndKeepsTheRest) {
  const Error error{ErrorKind::throttled, "HTTP 429", std::chrono::seconds{3}};
  EXPECT_EQ(fail("loading x", error).value(),
            (Error{ErrorKind::throttled, "loading x: HTTP 429", std::chrono::seconds{3}}));
  EXPECT_EQ(fail(ErrorKind::io, "no space").value(), (Error{ErrorKind::io, "no space", {}}));
}

TEST(CheckDeathTest, EndsTheProgramWithTheCallersPlaceAndTheClaim) {
  check(true, "one is one");
  EXPECT_DEATH(check(false, "one is two"), "result_test.cpp:[0-9]+: in TestBody: this should never happen: one is two");
}

}  // namespace
}  // namespace trainyard
