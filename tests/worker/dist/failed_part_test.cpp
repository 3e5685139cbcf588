#include "worker/dist/torch_error.hpp"

#include <c10/util/Exception.h>
#include <gloo/common/error.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace trainyard::dist {
namespace {

const std::string nccl =
    "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, unhandled cuda error (run with "
    "NCCL_DEBUG=INFO for details), NCCL version 2.28.9\n";
const std::string help =
    "\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\nCompile with `TORCH_USE_CUDA_DSA` to enable "
    "device-side assertions.\n";

TEST(FailedPartOfText, KnowsTheWordsOfTorchOfNcclAndOfTheDriver) {
  struct Row {
    std::string text;
    FailedPart part;
  };
  const std::vector<Row> rows{
      {"CUDA error: uncorrectable ECC error encountered" + help, FailedPart::device},
      {"CUDA error: uncorrectable NVLink error detected during the execution" + help, FailedPart::device},
      {"CUDA error: Invalid access of peer GPU memory over nvlink or a hardware error" + help, FailedPart::device},
      {"CUDA error: CUDA-capable device(s) is/are busy or unavailable" + help, FailedPart::device},
      {"CUDA error: no CUDA-capable device is detected" + help, FailedPart::device},
      {"CUDA error: CUDA driver version is insufficient for CUDA runtime version" + help, FailedPart::device},
      {"CUDA error: system not yet initialized" + help, FailedPart::device},
      {"CUDA error: system has unsupported display driver / cuda driver combination" + help, FailedPart::device},
      {"CUDA error: forward compatibility was attempted on non supported HW" + help, FailedPart::device},
      {"CUDA error: OS call failed or operation not supported on this OS" + help, FailedPart::device},
      {"CUDA error: unknown error" + help, FailedPart::device},
      {"CUDA driver error: unknown error", FailedPart::device},
      {nccl + "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 214 'uncorrectable ECC "
              "error encountered'",
       FailedPart::device},
      {nccl + "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 999 'unknown error'",
       FailedPart::device},

      {"CUDA error: MPS client failed to connect to the MPS control daemon or the MPS server" + help,
       FailedPart::device},
      {"CUDA error: MPS server is not ready to accept new MPS client requests" + help, FailedPart::device},
      {"CUDA error: the MPS client has been terminated by the server" + help, FailedPart::device},
      {"Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost", FailedPart::device},
      {"CUDA driver error: out of memory", FailedPart::device_memory},
      {"Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE)", FailedPart::communication},

      {"CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.18 GiB of which 1.20 GiB is "
       "free.",
       FailedPart::device_memory},
      {"CUDA error: out of memory" + help, FailedPart::device_memory},
      {nccl + "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 2 'out of memory'",
       FailedPart::device_memory},

      {nccl + "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting "
              "prematurely.\nLast error:\nsocketProgress: Connection closed by remote peer 10.0.0.7<41234>",
       FailedPart::communication},
      {nccl + "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error. "
              "\nLast error:\nsocketStartConnect: Connect to 10.0.0.7<41234> failed : Software caused connection abort",
       FailedPart::communication},
      {nccl + "ncclInternalError: Internal check failed.", FailedPart::communication},
      {"NCCL communicator was aborted on rank 3.", FailedPart::communication},

      // A kernel's mistakes. Hardware can look so too, but seldom does, and then the driver names ECC first.
      {"CUDA error: an illegal memory access was encountered" + help, FailedPart::program},
      {"CUDA error: unspecified launch failure" + help, FailedPart::program},
      {"CUDA error: device-side assert triggered" + help, FailedPart::program},
      {"CUDA error: misaligned address" + help, FailedPart::program},
      {nccl + "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 700 'an illegal memory "
              "access was encountered'",
       FailedPart::program},
      {nccl + "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\nLast error:\nDuplicate GPU "
              "detected : rank 1 and rank 0 both on CUDA device 1000",
       FailedPart::program},
      {"CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(...)`", FailedPart::program},
      {"an unknown error of the program", FailedPart::program},
      {"", FailedPart::program},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(failed_part_of_text(row.text), row.part) << row.text;
    EXPECT_EQ(failed_part(std::runtime_error{row.text}), row.part) << row.text;
  }
}

TEST(FailedPartOfCuda, KnowsTheResultsThatAreNotTheProgramsFault) {
  const std::vector<std::int32_t> of_device{35, 46, 100, 214, 220, 226, 304, 802, 803, 804, 805, 807, 810, 999};
  const std::vector<std::int32_t> of_program{1, 3, 9, 101, 209, 700, 701, 702, 710, 714, 715, 716, 717, 718, 719, 801};
  for (const std::int32_t code : of_device) EXPECT_EQ(failed_part_of_cuda(code), FailedPart::device) << code;
  for (const std::int32_t code : of_program) EXPECT_EQ(failed_part_of_cuda(code), FailedPart::program) << code;
  EXPECT_EQ(failed_part_of_cuda(2), FailedPart::device_memory);
}

TEST(FailedPart, GoesByTypeAndResultBeforeWords) {
  const c10::SourceLocation place{"f", "f.cpp", 1};
  EXPECT_EQ(failed_part(c10::AcceleratorError(place, 214, "CUDA error: other words")), FailedPart::device);
  EXPECT_EQ(failed_part(c10::AcceleratorError(place, 700, "CUDA error: an illegal memory access was encountered")),
            FailedPart::program);
  EXPECT_EQ(failed_part(c10::AcceleratorError(place, 719, "unspecified launch failure; uncorrectable ECC error")),
            FailedPart::device);
  EXPECT_EQ(failed_part(c10::OutOfMemoryError(place, "other words")), FailedPart::device_memory);
  EXPECT_EQ(failed_part(c10::AcceleratorError(place, 2, "CUDA error: other words")), FailedPart::device_memory);
}

TEST(FailedPart, TakesTheGroupsOwnErrorsForALostConnectionUnlessTheyNameTheProgram) {
  const c10::SourceLocation place{"f", "f.cpp", 1};
  EXPECT_EQ(failed_part(c10::DistBackendError(place, "ncclRemoteError: ...")), FailedPart::communication);
  EXPECT_EQ(failed_part(c10::DistBackendError(place, "other words")), FailedPart::communication);
  EXPECT_EQ(failed_part(c10::DistNetworkError(place, "failed to recv, got 0 bytes")), FailedPart::communication);
  EXPECT_EQ(failed_part(c10::DistStoreError(place, "wait timeout after 600000ms")), FailedPart::communication);
  for (const std::string words :
       {"ncclInvalidUsage: Duplicate GPU detected", "Cuda failure 700 'an illegal memory ...'",
        "ncclInvalidArgument: ...", "watchdog: CUDA error: device-side assert triggered"}) {
    EXPECT_EQ(failed_part(c10::DistBackendError(place, words)), FailedPart::program) << words;
  }
  EXPECT_EQ(failed_part(c10::DistBackendError(place, "watchdog: CUDA error: uncorrectable ECC error encountered")),
            FailedPart::device);
}

TEST(FailedPart, LooksOnlyAtTheMessageAndNotAtTheStackBelowIt) {
  try {
    TORCH_CHECK(false, "expected 2 dimensions");
  } catch (const std::exception& error) {
    EXPECT_EQ(failed_part(error), FailedPart::program);
  }
}

TEST(FailedPart, IsTheCommunicationForGloosLostConnectionsAndNotForItsWrongCalls) {
  EXPECT_EQ(failed_part(gloo::IoException{"Connection closed by peer"}), FailedPart::communication);
  EXPECT_EQ(failed_part(gloo::InvalidOperationException{"Pair is not connected"}), FailedPart::program);
}

}  // namespace
}  // namespace trainyard::dist
