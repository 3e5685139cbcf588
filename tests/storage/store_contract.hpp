#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "storage/store.hpp"

namespace trainyard::storage {

/// Checks of what every store must do. Each function takes a new, empty store.
namespace contract {

inline std::vector<std::string> keys_of(const std::vector<ObjectInfo>& objects) {
  std::vector<std::string> keys;
  for (const ObjectInfo& object : objects) keys.push_back(object.key);
  return keys;
}

inline std::vector<std::byte> some_bytes(std::size_t count) {
  std::vector<std::byte> bytes(count);
  std::uint32_t state = 1;
  for (std::byte& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

inline void gives_back_what_was_put(Store& store) {
  const std::vector<std::byte> content = some_bytes(100'000);
  const std::span<const std::byte> all{content};
  const std::vector<std::span<const std::byte>> pieces = {all.first(1), all.subspan(1, 0), all.subspan(1, 70'000),
                                                          all.subspan(70'001)};
  ASSERT_TRUE(store.put("a/b", pieces));
  EXPECT_EQ(store.get("a/b"), content);
  std::vector<std::byte> middle(500);
  ASSERT_TRUE(store.get_range("a/b", 69'900, middle));
  EXPECT_TRUE(std::equal(middle.begin(), middle.end(), content.begin() + 69'900));
  ASSERT_TRUE(put_text(store, "a/b", "shorter"));
  EXPECT_EQ(get_text(store, "a/b"), "shorter");
  ASSERT_TRUE(put_text(store, "empty", ""));
  EXPECT_EQ(get_text(store, "empty"), "");
}

inline void says_what_is_not_there(Store& store) {
  const auto missing = store.get("no/such");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::not_found);
  EXPECT_NE(missing.error().message.find("no/such"), std::string::npos) << missing.error().message;
  std::vector<std::byte> some(8);
  EXPECT_EQ(store.get_range("no/such", 0, some).error().kind, ErrorKind::not_found);
  EXPECT_TRUE(store.remove("no/such"));
  EXPECT_EQ(store.list("no/such"), std::vector<ObjectInfo>{});
}

inline void reports_an_object_that_ends_too_early(Store& store) {
  ASSERT_TRUE(put_text(store, "short", "12345"));
  std::vector<std::byte> into(4);
  EXPECT_EQ(store.get_range("short", 2, into).error().kind, ErrorKind::corrupt);
  EXPECT_EQ(store.get_range("short", 5, into).error().kind, ErrorKind::corrupt);
  EXPECT_EQ(store.get_range("short", 900, into).error().kind, ErrorKind::corrupt);
  EXPECT_TRUE(store.get_range("short", 1, into));
  EXPECT_TRUE(store.get_range("short", 0, {}));
}

inline void lists_by_prefix_in_order(Store& store) {
  for (const char* key : {"step-2/g-1/b", "step-10/g-1/a", "generations/1.json", "step-2/g-1/a", "other"}) {
    ASSERT_TRUE(put_text(store, key, key));
  }
  EXPECT_EQ(keys_of(store.list("").value()),
            (std::vector<std::string>{"generations/1.json", "other", "step-10/g-1/a", "step-2/g-1/a", "step-2/g-1/b"}));
  EXPECT_EQ(keys_of(store.list("step-").value()),
            (std::vector<std::string>{"step-10/g-1/a", "step-2/g-1/a", "step-2/g-1/b"}));
  EXPECT_EQ(store.list("step-2/g-1/a"), (std::vector<ObjectInfo>{{"step-2/g-1/a", 12}}));
  EXPECT_EQ(keys_of(store.list("step-2/").value()), (std::vector<std::string>{"step-2/g-1/a", "step-2/g-1/b"}));
  ASSERT_TRUE(store.remove("step-2/g-1/a"));
  EXPECT_EQ(keys_of(store.list("step-2/").value()), (std::vector<std::string>{"step-2/g-1/b"}));
}

inline void creates_an_object_for_one_writer_only(Store& store) {
  ASSERT_TRUE(store.has_conditional_create());
  constexpr int writers = 8;
  std::vector<ErrorKind> failures(writers, ErrorKind::internal);
  std::vector<char> created(writers, 0);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < writers; ++i) {
      threads.emplace_back([&, i] {
        const auto put = put_text(store, "generations/1.json", std::to_string(i), {.if_absent = true});
        created[i] = put.has_value() ? 1 : 0;
        if (!put) failures[i] = put.error().kind;
      });
    }
  }
  EXPECT_EQ(std::count(created.begin(), created.end(), 1), 1);
  EXPECT_EQ(std::count(failures.begin(), failures.end(), ErrorKind::already_exists), writers - 1);
  const auto winner = static_cast<std::size_t>(std::find(created.begin(), created.end(), 1) - created.begin());
  EXPECT_EQ(get_text(store, "generations/1.json"), std::to_string(winner));
}

inline void removes_many(Store& store) {
  std::vector<std::string> keys;
  for (int i = 0; i < 20; ++i) keys.push_back("step-1/rank-" + std::to_string(i));
  for (const std::string& key : keys) ASSERT_TRUE(put_text(store, key, key));
  ASSERT_TRUE(put_text(store, "step-2/rank-0", "x"));
  keys.emplace_back("no/such");
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_EQ(store.remove_all(keys, stopped.get_token()).error().kind, ErrorKind::cancelled);
  EXPECT_EQ(store.list("").value().size(), 21U);
  const auto removed = store.remove_all(keys);
  ASSERT_TRUE(removed) << removed.error().message;
  EXPECT_EQ(keys_of(store.list("").value()), (std::vector<std::string>{"step-2/rank-0"}));
  EXPECT_TRUE(store.remove_all({}));
  const std::vector<std::string> bad = {"step-2/rank-0", "../x"};
  EXPECT_EQ(store.remove_all(bad).error().kind, ErrorKind::invalid);
  EXPECT_TRUE(store.remove("step-2/rank-0"));
}

inline void refuses_keys_that_lead_elsewhere(Store& store) {
  EXPECT_EQ(put_text(store, "../x", "").error().kind, ErrorKind::invalid);
  EXPECT_EQ(store.get("../x").error().kind, ErrorKind::invalid);
  EXPECT_EQ(store.get_range("/x", 0, {}).error().kind, ErrorKind::invalid);
  EXPECT_EQ(store.remove("a/../../x").error().kind, ErrorKind::invalid);
}

}  // namespace contract
}  // namespace trainyard::storage
