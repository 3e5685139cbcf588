#include "worker/checkpoint/host_state.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trainyard::checkpoint {
namespace {

TEST(HostState, IsTheTensorsOwnMemoryWhereThatIsPlain) {
  State state;
  state.entries.push_back({"plain", Placement::replicated, torch::rand({3, 4})});
  state.entries.push_back({"own", Placement::per_rank, torch::arange(5)});
  const auto host = HostState::of(state);
  ASSERT_TRUE(host) << host.error().message;
  for (std::size_t i = 0; i < state.entries.size(); ++i) {
    EXPECT_EQ(static_cast<void*>(host->entries()[i].bytes.data()), state.entries[i].tensor.data_ptr());
    EXPECT_EQ(host->entries()[i].bytes.size(), state.entries[i].tensor.nbytes());
  }
}

TEST(HostState, KeepsOtherTensorsBytesBesideThemUntilTheyArePutBack) {
  const auto complex = torch::complex(torch::rand({4}), torch::rand({4}));
  for (const auto& tensor : {torch::rand({4, 6}).t(), torch::rand({8, 8}).slice(1, 0, 8, 2),
                             torch::rand({1}).expand({1, 1}).t(), complex.conj(), at::imag(complex.conj())}) {
    State state;
    state.entries.push_back({"other", Placement::replicated, tensor});
    const torch::Tensor expected = torch::ones_like(tensor).contiguous().resolve_conj().resolve_neg() * 3;
    const auto host = HostState::of(state);
    ASSERT_TRUE(host) << host.error().message;
    const auto bytes = host->entries()[0].bytes;
    ASSERT_EQ(bytes.size(), expected.nbytes());
    std::memcpy(bytes.data(), expected.data_ptr(), bytes.size());
    ASSERT_TRUE(host->copy_to(state));
    EXPECT_TRUE(torch::equal(tensor.resolve_conj().resolve_neg(), expected));
  }
}

TEST(HostState, HoldsWhatARanksOwnTensorsDoSinceACheckpointMayLackThem) {
  State state;
  const torch::Tensor tensor = torch::rand({4, 6}).t();
  state.entries.push_back({"own", Placement::per_rank, tensor});
  const auto host = HostState::of(state);
  ASSERT_TRUE(host) << host.error().message;
  const torch::Tensor contiguous = tensor.contiguous();
  EXPECT_EQ(std::memcmp(host->entries()[0].bytes.data(), contiguous.data_ptr(), contiguous.nbytes()), 0);
}

TEST(DescribeEntry, NamesTheTypeAsSafetensorsDoes) {
  const std::pair<torch::ScalarType, std::string> types[] = {
      {torch::kFloat64, "F64"},         {torch::kFloat32, "F32"},
      {torch::kFloat16, "F16"},         {torch::kBFloat16, "BF16"},
      {torch::kFloat8_e5m2, "F8_E5M2"}, {torch::kFloat8_e4m3fn, "F8_E4M3"},
      {torch::kInt64, "I64"},           {torch::kInt32, "I32"},
      {torch::kInt16, "I16"},           {torch::kInt8, "I8"},
      {torch::kUInt64, "U64"},          {torch::kUInt32, "U32"},
      {torch::kUInt16, "U16"},          {torch::kUInt8, "U8"},
      {torch::kBool, "BOOL"},           {torch::kComplexFloat, "ComplexFloat"}};
  for (const auto& [type, name] : types) {
    const auto described =
        describe({.name = "w", .placement = Placement::per_rank, .tensor = torch::empty({2, 3}, type)});
    ASSERT_TRUE(described) << name;
    EXPECT_EQ(described->info.dtype, name);
    EXPECT_EQ(described->info.name, "w");
    EXPECT_EQ(described->info.placement, Placement::per_rank);
    EXPECT_EQ(described->info.shape, (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(described->info.bytes, 6 * c10::elementSize(type));
    EXPECT_EQ(described->rows, std::nullopt);
  }
}

TEST(DescribeEntry, RefusesWhatIsNoDenseTensor) {
  for (const torch::Tensor& tensor : {torch::Tensor{}, torch::eye(3).to_sparse(),
                                      torch::quantize_per_tensor(torch::ones({2}), 1.0, 0, torch::kQInt8)}) {
    const auto described = describe({.name = "odd", .tensor = tensor});
    ASSERT_FALSE(described);
    EXPECT_EQ(described.error().kind, ErrorKind::invalid);
    EXPECT_EQ(described.error().message, "odd cannot be saved: it is no dense tensor");
  }
}

TEST(DescribeEntry, RefusesRowsOfAScalarInSeveralDimensions) {
  const auto described = describe({.name = "step",
                                   .placement = Placement::sharded,
                                   .tensor = torch::ones({1, 1}),
                                   .shard = Shard{.row_begin = 0, .row_count = 1, .is_of_scalar = true}});
  ASSERT_FALSE(described);
  EXPECT_EQ(described.error().kind, ErrorKind::invalid);
}

TEST(HostState, NamesTheEntryThatCannotBeRestored) {
  State state;
  state.entries.push_back({"whole", Placement::replicated, torch::zeros({4, 6}).t()});
  state.entries.push_back({"odd", Placement::replicated, torch::zeros({4, 6}).t()});
  const auto host = HostState::of(state);
  ASSERT_TRUE(host) << host.error().message;
  state.entries[1].tensor = torch::zeros({5});
  const auto copied = host->copy_to(state);
  ASSERT_FALSE(copied);
  EXPECT_EQ(copied.error().kind, ErrorKind::internal);
  EXPECT_TRUE(copied.error().message.starts_with("restoring odd: ")) << copied.error().message;
}

}  // namespace
}  // namespace trainyard::checkpoint
