// A prefix of a real S3 server.
#include <gmock/gmock.h>

#include <algorithm>

#include "checkpoint/interchange/catalogue.hpp"
#include "checkpoint/interchange/data_stream.hpp"
#include "checkpoint/interchange/entry_names.hpp"
#include "checkpoint/interchange/export.hpp"
#include "checkpoint/interchange/fetch.hpp"
#include "checkpoint/interchange/removal.hpp"
#include "checkpoint/interchange/verify.hpp"
#include "checkpoint/interchange/weights.hpp"
#include "storage/file_store.hpp"
#include "tests/checkpoint/interchange/memory_sink.hpp"
#include "tests/checkpoint/interchange/test_prefix.hpp"
#include "tests/fakes/temporary_folder.hpp"
#include "tests/storage/s3_fixture.hpp"

namespace trainyard::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class InS3 : public storage::S3Fixture {
 protected:
  void SetUp() override {
    storage::S3Fixture::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    prefix.emplace(open(server().port()));
    prefix->claim(1);
    prefix->save({10, 1}, 2);
    prefix->save({20, 1}, 2);
  }

  const fakes::TemporaryFolder folder;
  std::optional<TestPrefix> prefix;
};

TEST_F(InS3, ACheckpointIsVerifiedReadCopiedAndRemovedAsInAFolder) {
  auto catalogue = read_catalogue(prefix->store());
  ASSERT_TRUE(catalogue) << catalogue.error().message;
  const Manifest manifest = *catalogue->newest()->manifest;
  EXPECT_THAT(verify(prefix->store(), catalogue->inventory, {20, 1})->damages, IsEmpty());

  DataStream data{prefix->store(), manifest};
  std::uint64_t bytes = 0;
  const auto plan = plan_export(manifest, {});
  for (const ExportedTensor& tensor : *plan) {
    ASSERT_TRUE(data.read(tensor.stored, [&](std::span<const std::byte> piece) -> Result<void> {
      bytes += piece.size();
      return {};
    })) << tensor.name;
  }
  EXPECT_EQ(bytes, 64U * 7 * 4 + 1100 * 512 * 2 + 8 + 13);

  ASSERT_TRUE(fetch(prefix->store(), catalogue->inventory, manifest, folder.path() + "/copy"));
  storage::FileStore copy{folder.path() + "/copy"};
  EXPECT_EQ(read_catalogue(copy)->newest()->manifest, manifest);

  ASSERT_TRUE(remove_all(prefix->store(), *plan_removal(*catalogue, *catalogue->find({10, 1}), false)));
  catalogue = read_catalogue(prefix->store());
  EXPECT_EQ(catalogue->checkpoints.size(), 1U);
}

TEST_F(InS3, WeightsAreTakenFromCheckpointsAndFromAFile) {
  const auto manifest = storage::get_text(prefix->store(), manifest_key({20, 1})).and_then(parse_manifest);
  ASSERT_TRUE(manifest);
  DataStream data{prefix->store(), *manifest};
  MemorySink sink;
  ASSERT_TRUE(write_safetensors(data, *manifest, *plan_export(*manifest, {}), sink));
  ASSERT_TRUE(storage::put_text(prefix->store(), "w.safetensors", sink.content));
  const TestState expected = state_after(20);
  for (const std::string file : {"", "w.safetensors"}) {
    TestState state;
    std::vector<HostEntry> model;
    for (const HostEntry& entry : state.entries()) {
      if (entry.info.name.starts_with(model_prefix)) model.push_back(entry);
    }
    const auto loaded = load_weights(prefix->store(), {.prefix_uri = "", .file = file, .id = {}}, model);
    ASSERT_TRUE(loaded) << loaded.error().message;
    for (std::size_t i = 0; i < model.size(); ++i)
      EXPECT_TRUE(std::ranges::equal(model[i].bytes, expected.entries()[i].bytes)) << model[i].info.name;
  }
}

TEST_F(InS3, DamageIsFoundAndAMissingBucketIsNone) {
  prefix->flip(data_key(CheckpointId{20, 1}, 1), -1);
  EXPECT_THAT(verify(prefix->store(), prefix->inventory(), {20, 1})->damages,
              ElementsAre(HasSubstr("step-20/g-1/rank-1.safetensors: rng.cpu")));
  bucket = "no-such-bucket";
  EXPECT_EQ(read_catalogue(*open(server().port())).error().kind, ErrorKind::not_found);
}

}  // namespace
}  // namespace trainyard::checkpoint
