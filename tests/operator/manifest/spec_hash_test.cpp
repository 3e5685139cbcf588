#include "operator/manifest/spec_hash.hpp"

#include <gtest/gtest.h>

#include "tests/builders/an_observed.hpp"

namespace trainyard::manifest {
namespace {

using nlohmann::json;

std::string hash_of(std::string_view spec) {
  json job = builders::a_job().manifest();
  job["metadata"]["uid"] = "u";
  job["spec"] = json::parse(spec);
  const auto parsed = api::parse_training_job(job);
  return parsed ? spec_hash(parsed->spec) : parsed.error().message;
}

struct Pinned {
  const char* hash;
  const char* spec;
};

/// Hashes of an earlier operator, whose pathStyle was false by default, and specs as its CRD stored them.
constexpr Pinned pinned[]{
    {"250cf1c75f1d71fa", R"({"replicas": 2, "gpusPerPod": 0,
        "training": {"model": {"name": "fashion_cnn"}, "maxSteps": 200}})"},
    {"dfa17c1b63e721a0", R"({"replicas": 2, "gpusPerPod": 0,
        "training": {"model": {"name": "fashion_cnn"}, "maxSteps": 200}, "checkpoint": {"uri": "s3://models/smoke"}})"},
    {"c6129fe92ca22b7c", R"({"replicas": 4,
        "training": {"model": {"name": "mlp", "weights": "s3://models/base.safetensors"},
                     "data": {"format": "idx", "uri": "s3://datasets/fashion-mnist"}, "batchSize": 100, "epochs": 3,
                     "optimizer": {"name": "adam", "lr": 0.001}},
        "checkpoint": {"uri": "s3://models/fashion-mnist", "every": {"time": "5m", "epochs": 1},
                       "keep": {"last": 3, "best": {"metric": "val_accuracy"}}, "credentialsSecret": "s3-credentials",
                       "s3": {"endpoint": "https://s3.example.com", "region": "us-east-1", "pathStyle": true}}})"},
    {"f3c118d4ccee0b3c", R"({"replicas": 2,
        "template": {"spec": {"containers": [{"name": "worker", "image": "registry.example/train:1"}]}},
        "checkpoint": {"uri": "s3://models/own", "onDelete": "Delete",
                       "s3": {"endpoint": "https://s3.example.com", "pathStyle": false}}})"},
    {"3af875d76f42f65a", R"({"replicas": 1, "gpusPerPod": 8,
        "template": {"spec": {"containers": [{"name": "worker", "image": "registry.example/train:1"}]}}})"},
    {"bab8e45c9de50344", R"({"replicas": 3, "gpusPerPod": 1,
        "training": {"model": {"name": "fashion_cnn"}, "epochs": 1, "snapshots": {}},
        "checkpoint": {"uri": "file:///checkpoints", "local": {"path": "/mnt/nvme", "every": {"time": "30s"}},
                       "resume": "none"}})"},
    {"fdb7e2849b100424", R"({"replicas": 1, "training": {"model": {"name": "mlp"}, "strategy": {"name": "single"}}})"},
    {"4ced258f4e6433b2", R"({"replicas": 2, "training": {"model": {"name": "mlp"},
        "strategy": {"name": "bagua", "algorithm": "lowPrecisionDecentralized"}}})"},
    {"00fe01ae732399ec",
     R"({"replicas": 2, "training": {"model": {"name": "mlp"}, "strategy": {"gradientCompression": "bf16",
        "broadcastBuffers": false, "syncBatchNorm": true, "bucketMiB": 8}}})"},
};

// If the hash changed with an upgrade of the operator, the next edit of a budget or a deadline would restart every
// group that forms, and would report a changed spec for every group that runs.
TEST(SpecHash, IsWhatEarlierOperatorsWroteOnPodsThatStillRun) {
  for (const Pinned& pin : pinned) EXPECT_EQ(hash_of(pin.spec), pin.hash) << pin.spec;
}

TEST(SpecHash, DependsOnPathStyleWhereTheUserMayChooseIt) {
  const auto hash_with = [](const std::string& s3) {
    return hash_of(R"({"checkpoint": {"uri": "s3://models/smoke", "s3": )" + s3 + "}}");
  };
  const std::string absent = hash_with(R"({"endpoint": "https://s3.example.com"})");
  const std::string in_host = hash_with(R"({"endpoint": "https://s3.example.com", "pathStyle": false})");
  const std::string in_path = hash_with(R"({"endpoint": "https://s3.example.com", "pathStyle": true})");
  EXPECT_NE(absent, in_host);
  EXPECT_NE(absent, in_path);
  EXPECT_NE(in_host, in_path);
  // At AWS's own endpoints the bucket is in the host name either way.
  EXPECT_EQ(hash_with("{}"), hash_with(R"({"pathStyle": false})"));
  EXPECT_NE(hash_with("{}"), hash_with(R"({"pathStyle": true})"));
}

TEST(SpecHash, IsEqualAfterAnEditThatReachesNoPod) {
  const std::string before = spec_hash(builders::a_job().checkpoint().build().spec);
  EXPECT_EQ(spec_hash(builders::a_job().checkpoint().ttl(std::chrono::seconds{5}).build().spec), before);
  EXPECT_EQ(spec_hash(builders::a_job().checkpoint().on_delete().build().spec), before);
  EXPECT_NE(spec_hash(builders::a_job().checkpoint().replicas(3).build().spec), before);
}

}  // namespace
}  // namespace trainyard::manifest
