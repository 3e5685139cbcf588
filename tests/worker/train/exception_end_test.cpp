#include "worker/train/ending.hpp"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "api/contract.hpp"
#include "include/trainyard/options.hpp"
#include "worker/strategy/exchange_failed.hpp"

namespace trainyard::train {
namespace {

rank::RankEnd an_end(int exit_code, std::string reason, std::string message) {
  return {.exit_code = exit_code, .reason = std::move(reason), .message = std::move(message), .culprit = {}};
}

TEST(EndOfException, ChargesToTheNodeOnlyWhatItsDeviceDid) {
  const auto end = [](const auto& error) {
    return end_of_exception(std::make_exception_ptr(error), "cuda:0 of node n1");
  };
  const c10::SourceLocation place{"f", "f.cpp", 1};
  EXPECT_EQ(end(c10::AcceleratorError(place, 214, "CUDA error: uncorrectable ECC error encountered\nCUDA kernel ...")),
            an_end(contract::exit_device, "DeviceFailed",
                   "cuda:0 of node n1 failed: CUDA error: uncorrectable ECC error encountered"));
  EXPECT_EQ(end(c10::OutOfMemoryError(place, "CUDA out of memory. Tried to allocate 20.00 GiB.")),
            an_end(contract::exit_failure, "DeviceOutOfMemory",
                   "cuda:0 of node n1 has too little memory for this program: CUDA out of memory. Tried to allocate "
                   "20.00 GiB."));
  EXPECT_EQ(end(c10::DistBackendError(place, "NCCL error in: f.cpp:1\nncclRemoteError: A call failed.")),
            an_end(contract::exit_peer_lost, "PeerLost", "NCCL error in: f.cpp:1"));
  EXPECT_EQ(end(c10::AcceleratorError(place, 700, "CUDA error: an illegal memory access was encountered")),
            an_end(contract::exit_failure, "TrainingFailed", "CUDA error: an illegal memory access was encountered"));
  EXPECT_EQ(end(InvalidJob{"label 12 is not one of 10 classes"}),
            an_end(contract::exit_do_not_restart, "InvalidSpec", "label 12 is not one of 10 classes"));
  const Error lost{
      .kind = ErrorKind::unavailable, .message = "the exchange of batch statistics: closed", .retry_after = {}};
  EXPECT_EQ(end(strategy::ExchangeFailed{lost}), end_of(Stage::step, lost));
  EXPECT_EQ(end_of(Stage::step, lost).exit_code, contract::exit_peer_lost);
  EXPECT_EQ(end(7),
            an_end(contract::exit_failure, "TrainingFailed", "the program threw something that is no std::exception"));
  EXPECT_EQ(end(std::runtime_error{"mat1 and mat2 shapes cannot be multiplied"}),
            an_end(contract::exit_failure, "TrainingFailed", "mat1 and mat2 shapes cannot be multiplied"));
}

TEST(EndOfException, NamesTheCallOfTheProgramThatThrew) {
  const auto message = [](const auto& error) {
    return end_of_exception(std::make_exception_ptr(error), "cuda:0 of node n1", "training_step() in step 7").message;
  };
  const c10::SourceLocation place{"f", "f.cpp", 1};
  EXPECT_EQ(message(std::runtime_error{"a bug"}), "training_step() in step 7: a bug");
  EXPECT_EQ(message(7), "training_step() in step 7 threw something that is no std::exception");
  EXPECT_EQ(message(c10::OutOfMemoryError(place, "CUDA out of memory.")),
            "cuda:0 of node n1 has too little memory for this program: training_step() in step 7: CUDA out of memory.");
  EXPECT_EQ(message(c10::AcceleratorError(place, 214, "CUDA error: uncorrectable ECC error encountered")),
            "cuda:0 of node n1 failed: CUDA error: uncorrectable ECC error encountered")
      << "a device may report an earlier call's failure";
  EXPECT_EQ(message(c10::AcceleratorError(place, 700, "CUDA error: an illegal memory access was encountered")),
            "CUDA error: an illegal memory access was encountered, seen in training_step() in step 7");
  EXPECT_EQ(message(InvalidJob{"label 12 is not one of 10 classes"}), "label 12 is not one of 10 classes");
}

}  // namespace
}  // namespace trainyard::train
