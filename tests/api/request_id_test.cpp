#include "api/request.hpp"

#include <gtest/gtest.h>

#include <regex>

#include "api/contract.hpp"

namespace trainyard::contract {
namespace {

TEST(RequestId, IsWhatThePatternMatches) {
  const std::regex pattern{std::string{checkpoint_request_id_pattern}};
  std::vector<std::string> ids{"", "suspend-4", "A.b_c-9", "a b", "ä", std::string("a\0", 2), "a/b", "..", "a\n"};
  for (const std::size_t bytes : {62U, 63U, 64U, 200U}) ids.emplace_back(bytes, 'z');
  for (int c = 0; c < 256; ++c) ids.emplace_back(1, static_cast<char>(c));
  for (const std::string& id : ids) EXPECT_EQ(is_request_id(id), std::regex_match(id, pattern)) << id;
}

}  // namespace
}  // namespace trainyard::contract
