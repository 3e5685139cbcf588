#include "checkpoint/format/manifest.hpp"

#include <gtest/gtest.h>

#include "checkpoint/format/claim.hpp"
#include "checkpoint/format/sealed_json.hpp"

namespace trainyard::checkpoint {
namespace {

const Identity identity{.job = "team/a", .job_uid = "uid-1", .attempt = 2, .fingerprint = "f"};

Manifest a_manifest() {
  return {
      .id = {.step = 20, .generation = 2},
      .identity = identity,
      .time = Time{std::chrono::milliseconds{1'700'000'000'123}},
      .is_final = true,
      .nonce = "n-1",
      .values = {{"epoch", 3}, {"loss", 0.1}, {"name", "ü"}},
      .entries = {{.name = "w", .placement = Placement::replicated, .dtype = "F32", .shape = {2, 3}, .bytes = 24},
                  {.name = "rng", .placement = Placement::per_rank, .dtype = "U8", .shape = {8}, .bytes = 8}},
      .receipts = {{.rank = 0,
                    .bytes = 100,
                    .crc32c = 0xffffffff,
                    .chunks = {{.entry = "w", .row_begin = 0, .row_end = 1, .offset = 64, .bytes = 12, .crc32c = 1}}},
                   {.rank = 1,
                    .bytes = 80,
                    .crc32c = 7,
                    .chunks = {{.entry = "w", .row_begin = 1, .row_end = 2, .offset = 32, .bytes = 12, .crc32c = 2}}}}};
}

TEST(Manifest, IsReadBackAsItWasWritten) {
  const auto manifest = parse_manifest(to_text(a_manifest()));
  ASSERT_TRUE(manifest) << manifest.error().message;
  EXPECT_EQ(*manifest, a_manifest());
  EXPECT_EQ(data_bytes(*manifest), 180U);
}

TEST(Manifest, IsCorruptWhereverOneBitChanges) {
  const std::string text = to_text(a_manifest());
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (const int bit : {0, 3, 5}) {
      std::string changed = text;
      changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
      const auto manifest = parse_manifest(changed);
      // A change that leaves the meaning equal may pass.
      EXPECT_TRUE(!manifest || *manifest == a_manifest()) << "byte " << i << " bit " << bit;
    }
  }
}

TEST(Manifest, IsCorruptWhenItEndsTooEarly) {
  const std::string text = to_text(a_manifest());
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_EQ(parse_manifest(text.substr(0, length)).error().kind, ErrorKind::corrupt) << length;
  }
}

TEST(Manifest, IsCorruptWithFieldsThatAreMissingOrWrong) {
  const nlohmann::json good = unseal(to_text(a_manifest())).value();
  for (const auto& [field, value] : good.items()) {
    nlohmann::json without = good;
    without.erase(field);
    EXPECT_EQ(parse_manifest(seal(without)).error().kind, ErrorKind::corrupt) << field;
    if (field == "values") continue;
    nlohmann::json wrong = good;
    wrong[field] = nlohmann::json::array({nullptr});
    EXPECT_FALSE(parse_manifest(seal(wrong))) << field;
  }
}

TEST(Manifest, OfANewerFormatIsNotTakenForDamage) {
  nlohmann::json newer = unseal(to_text(a_manifest())).value();
  newer["version"] = 4;
  newer.erase("receipts");  // No field of another version is known.
  const auto manifest = parse_manifest(seal(newer));
  ASSERT_FALSE(manifest);
  EXPECT_EQ(manifest.error().kind, ErrorKind::invalid);
  EXPECT_EQ(manifest.error().message,
            "its format version is 4, and this program reads 3 at most: use a newer Trainyard");
}

TEST(Manifest, IsOfANewerFormatOnlyWithWhatOlderProgramsCannotRead) {
  EXPECT_EQ(unseal(to_text(a_manifest())).value().at("version"), 1);
  Manifest sharded = a_manifest();
  sharded.entries.front().placement = Placement::sharded;
  EXPECT_EQ(unseal(to_text(sharded)).value().at("version"), 2) << "they say: use a newer Trainyard";
  EXPECT_EQ(parse_manifest(to_text(sharded)), sharded);
  Manifest named = a_manifest();
  named.data_nonce = std::string(32, 'a') + "-1";
  EXPECT_EQ(unseal(to_text(named)).value().at("version"), 3) << "they would look for its files under other names";
  EXPECT_EQ(parse_manifest(to_text(named)), named);
  sharded.data_nonce = named.data_nonce;
  EXPECT_EQ(unseal(to_text(sharded)).value().at("version"), 3) << "programs of version 2 would look for the files too";
  EXPECT_EQ(parse_manifest(to_text(sharded)), sharded);
  named.data_nonce = "../../elsewhere";
  EXPECT_EQ(parse_manifest(to_text(named)).error().kind, ErrorKind::corrupt) << "it becomes a part of keys";
}

TEST(Receipt, IsReadBackAsItWasWritten) {
  const Receipt receipt = a_manifest().receipts.front();
  EXPECT_EQ(parse_receipt(to_json(receipt)), receipt);
  EXPECT_EQ(parse_receipt({{"rank", 0}}).error().kind, ErrorKind::corrupt);
}

TEST(Claim, IsReadBackAsItWasWritten) {
  Claim claim{.generation = 3,
              .identity = identity,
              .resumed_from = CheckpointId{20, 2},
              .time = Time{std::chrono::milliseconds{1'700'000'000'123}},
              .nonce = "n"};
  EXPECT_EQ(parse_claim(to_text(claim)), claim);
  EXPECT_FALSE(unseal(to_text(claim)).value().contains("process")) << "it gives no signs of life";
  claim.process = "host-1/123";
  EXPECT_EQ(parse_claim(to_text(claim)), claim);
  claim.resumed_from = std::nullopt;
  EXPECT_EQ(parse_claim(to_text(claim)), claim);
  claim.is_open = true;
  EXPECT_EQ(parse_claim(to_text(claim)), claim);
  EXPECT_EQ(parse_claim("{}").error().kind, ErrorKind::corrupt);
  EXPECT_EQ(parse_claim(seal({{"generation", 1}})).error().kind, ErrorKind::corrupt);
}

// A longer text is refused before it is parsed, even if it is valid.
TEST(Seal, IsOfATextUpToItsBound) {
  std::string text = seal({{"generation", 1}});
  text.resize(sealed_bytes_max, ' ');
  EXPECT_TRUE(unseal(text));
  text += ' ';
  const auto longer = unseal(text);
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().kind, ErrorKind::corrupt);
  EXPECT_EQ(longer.error().message, "it has 67108865 bytes, more than the limit of 67108864");
}

TEST(Seal, SaysWhatIsWrongWithAText) {
  const auto fault = [](std::string_view text) { return unseal(text).error(); };
  const Error no_object{ErrorKind::corrupt, "it is not a JSON object"};
  const Error no_checksum{ErrorKind::corrupt, "it has no checksum"};
  EXPECT_EQ(fault("[]"), no_object);
  EXPECT_EQ(fault(R"({"a": 1)"), no_object);
  EXPECT_EQ(fault(R"({"a": 1})"), no_checksum);
  EXPECT_EQ(fault(R"({"a": 1, "crc32c": 7})"), no_checksum);
  EXPECT_EQ(fault(R"({"a": 1, "crc32c": "00000000"})"), (Error{ErrorKind::corrupt, "its checksum does not match"}));
  EXPECT_EQ(parse_manifest(seal({{"generation", 1}})).error(), (Error{ErrorKind::corrupt, "it is not a manifest"}));
}

TEST(Seal, ReplacesTheChecksumOfATextThatWasSealedBefore) {
  EXPECT_EQ(seal({{"a", 1}, {"crc32c", "old"}}), seal({{"a", 1}}));
}

TEST(Seal, TakesTextThatIsNoUtf8) {
  EXPECT_TRUE(unseal(seal({{"name", "\xff\xfe"}})));
}

}  // namespace
}  // namespace trainyard::checkpoint
