#include "worker/checkpoint/host_state.hpp"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstring>

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

}  // namespace
}  // namespace trainyard::checkpoint
