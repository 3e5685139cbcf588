#include "api/device_spec.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "api/training_spec.hpp"

namespace trainyard::api {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using Kind = DeviceChoice::Kind;

TEST(ParseDevices, ReadsWhatLightningsUsersWrite) {
  const std::vector<std::pair<std::string, DeviceChoice>> table{
      {"3", {.kind = Kind::first, .count = 3}},
      {" 3 ", {.kind = Kind::first, .count = 3}},
      {"-1", {.kind = Kind::all, .count = 0}},
      {"[0]", {.kind = Kind::listed, .count = 0, .indices = {0}}},
      {"[1, 3]", {.kind = Kind::listed, .count = 0, .indices = {1, 3}}},
      {"1, 3", {.kind = Kind::listed, .count = 0, .indices = {1, 3}}},
      {"3,1", {.kind = Kind::listed, .count = 0, .indices = {3, 1}}},
      {"1,", {.kind = Kind::listed, .count = 0, .indices = {1}}},
      {"[ 0 , 1023 ]", {.kind = Kind::listed, .count = 0, .indices = {0, 1023}}},
      {"[1,]", {.kind = Kind::listed, .count = 0, .indices = {1}}},
      {"1", {.kind = Kind::first, .count = 1}},
      {"1024", {.kind = Kind::first, .count = 1024}},
  };
  for (const auto& [text, wanted] : table) {
    const auto choice = parse_devices(text);
    ASSERT_TRUE(choice) << text << ": " << choice.error().message;
    EXPECT_EQ(*choice, wanted) << text;
  }
}

TEST(ParseDevices, RefusesOtherTextsAndSaysWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> table{
      {"", "it is not a whole number"},
      {"true", "it is not a whole number"},
      {"1.5", "it is not a whole number"},
      {"+2", "it is not a whole number"},
      {"2 3", "it is not a whole number"},
      {"[", "it is not a whole number"},
      {"[1 2]", "'1 2' is not a whole number"},
      {"[1,,2]", "'' is not a whole number"},
      {"0", "the number of devices is 1 to 1024, or -1"},
      {"-2", "the number of devices is 1 to 1024, or -1"},
      {"1025", "the number of devices is 1 to 1024, or -1"},
      {"99999999999999999999", "it is not a whole number"},
      {"[]", "it names none"},
      {",", "'' is not a whole number"},
      {"1,,2", "'' is not a whole number"},
      {"[1, true]", "'true' is not a whole number"},
      {"[-1]", "-1 is not a device number"},
      {"1,1024", "1024 is not a device number"},
      {"1,3,1", "device 1 is there twice"},
      {"[1", "it is not a whole number"},
      {"1]", "it is not a whole number"},
      {"1],", "'1]' is not a whole number"},
  };
  for (const auto& [text, fault] : table) {
    const auto choice = parse_devices(text);
    ASSERT_FALSE(choice) << text;
    EXPECT_EQ(choice.error().kind, ErrorKind::invalid) << text;
    EXPECT_THAT(choice.error().message,
                testing::StartsWith("'" + text + "' does not choose devices: " + fault + "; write "));
  }
}

TEST(ParseDevices, ReadsItsOwnText) {
  for (const DeviceChoice& choice : {DeviceChoice{}, DeviceChoice{.kind = Kind::first, .count = 3},
                                     DeviceChoice{.kind = Kind::listed, .count = 0, .indices = {1}},
                                     DeviceChoice{.kind = Kind::listed, .count = 0, .indices = {3, 0}}}) {
    EXPECT_EQ(*parse_devices(to_string(choice)), choice) << to_string(choice);
  }
}

Result<TrainingSpec> training_with(const json& fields) {
  json training{{"model", {{"name", "m"}}}};
  training.update(fields);
  return parse_training_spec(training);
}

TEST(ReadDevices, TakesTextsAndNumbers) {
  const std::vector<std::pair<json, DeviceSpec>> table{
      {json::object(), {}},
      {{{"accelerator", "auto"}, {"devices", "auto"}}, {}},
      {{{"accelerator", "cpu"}, {"devices", 3}}, {Accelerator::cpu, DeviceChoice{.kind = Kind::first, .count = 3}}},
      {{{"accelerator", "gpu"}, {"devices", -1}}, {Accelerator::gpu, DeviceChoice{}}},
      {{{"accelerator", "cuda"}, {"devices", "1,"}},
       {Accelerator::gpu, DeviceChoice{.kind = Kind::listed, .count = 0, .indices = {1}}}},
  };
  for (const auto& [fields, wanted] : table) {
    const auto spec = training_with(fields);
    ASSERT_TRUE(spec) << fields << ": " << spec.error().message;
    EXPECT_EQ(spec->device, wanted) << fields;
    const auto again = parse_training_spec(to_json(*spec));
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->device, wanted) << fields;
  }
}

TEST(ReadDevices, RefusesWhatChoosesNoDevices) {
  for (const json& devices : {json(0), json("none"), json(true), json(1.5), json("1,1")}) {
    const auto spec = training_with({{"devices", devices}});
    ASSERT_FALSE(spec) << devices;
    EXPECT_THAT(spec.error().message, HasSubstr("spec.training.devices: '")) << devices;
  }
}

}  // namespace
}  // namespace trainyard::api
