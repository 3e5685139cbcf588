#include "worker/dist/torch_error.hpp"

#include <c10/util/Exception.h>
#include <c10/util/Type.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <typeinfo>

namespace trainyard::dist {
namespace {

constexpr std::string_view nccl_last_error = "\nLast error:\n";

}  // namespace

std::string first_line(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
  text = text.substr(0, text.find('\n'));
  // "[../third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer"
  if (!text.empty() && text.front() == '[') {
    if (const auto end = text.find("] "); end != std::string_view::npos) text.remove_prefix(end + 2);
  }
  return std::string{text};
}

std::string message_of(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string_view text = torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
  std::string message = first_line(text);
  if (const auto last = text.find(nccl_last_error); last != std::string_view::npos) {
    const std::string cause = first_line(text.substr(last + nccl_last_error.size()));
    if (!cause.empty()) message += ": " + cause;
  }
  return message;
}

namespace {

/// The texts of NCCL, of the CUDA driver and of its runtime for failures of hardware or driver.
constexpr std::array device_texts{
    std::string_view{"uncorrectable ECC error"},
    std::string_view{"uncorrectable NVLink error"},
    std::string_view{"Invalid access of peer GPU memory over nvlink or a hardware error"},
    std::string_view{"CUDA-capable device(s) is/are busy or unavailable"},
    std::string_view{"no CUDA-capable device is detected"},
    std::string_view{"CUDA driver version is insufficient for CUDA runtime version"},
    std::string_view{"system not yet initialized"},
    std::string_view{"system has unsupported display driver / cuda driver combination"},
    std::string_view{"forward compatibility was attempted on non supported HW"},
    std::string_view{"OS call failed or operation not supported on this OS"},
    std::string_view{"MPS client failed to connect to the MPS control daemon"},
    std::string_view{"MPS server is not ready to accept new MPS client requests"},
    std::string_view{"MPS client has been terminated by the server"},
    // 999, which the runtime gives when a GPU falls off the bus.
    std::string_view{"CUDA error: unknown error"},
    std::string_view{"CUDA driver error: unknown error"},
    std::string_view{"Cuda failure 999"},
    std::string_view{"GPU is lost"},
};

constexpr std::array memory_texts{
    std::string_view{"CUDA out of memory"},
    std::string_view{"CUDA error: out of memory"},
    std::string_view{"CUDA driver error: out of memory"},
    std::string_view{"Cuda failure 2 'out of memory'"},
};

/// NCCL's words for a lost connection. An internal error is one too: peers that vanish in the wrong moment cause it.
constexpr std::array communication_texts{
    std::string_view{"ncclRemoteError"},
    std::string_view{"ncclSystemError"},
    std::string_view{"ncclInternalError"},
    std::string_view{"NCCL communicator was aborted"},
    std::string_view{"Watchdog caught collective operation timeout"},
};

/// The texts in torch.distributed's errors that name a mistake of the program: a failed kernel, or a wrong use of NCCL.
constexpr std::array program_texts{
    std::string_view{"CUDA error"},
    std::string_view{"Cuda failure"},
    std::string_view{"ncclInvalidUsage"},
    std::string_view{"ncclInvalidArgument"},
};

template <std::size_t count>
bool has_one_of(std::string_view text, const std::array<std::string_view, count>& words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

/// Gloo throws it for lost connections and timeouts, and other classes for wrong calls.
bool is_connection_of_gloo(const std::exception& error) {
  // By name, since LibTorch has a Gloo of its own inside.
  return c10::demangle(typeid(error).name()) == "gloo::IoException";
}

}  // namespace

FailedPart failed_part_of_cuda(std::int32_t code) {
  switch (code) {
    case 2:  // cudaErrorMemoryAllocation
      return FailedPart::device_memory;
    case 35:   // cudaErrorInsufficientDriver
    case 46:   // cudaErrorDevicesUnavailable
    case 100:  // cudaErrorNoDevice
    case 214:  // cudaErrorECCUncorrectable
    case 220:  // cudaErrorNvlinkUncorrectable
    case 226:  // cudaErrorContained
    case 304:  // cudaErrorOperatingSystem
    case 802:  // cudaErrorSystemNotReady
    case 803:  // cudaErrorSystemDriverMismatch
    case 804:  // cudaErrorCompatNotSupportedOnDevice
    case 805:  // cudaErrorMpsConnectionFailed
    case 807:  // cudaErrorMpsServerNotReady
    case 810:  // cudaErrorMpsClientTerminated
    case 999:  // cudaErrorUnknown
      return FailedPart::device;
    default:
      return FailedPart::program;
  }
}

FailedPart failed_part_of_text(std::string_view text) {
  // First the device: NCCL passes the words of a failed CUDA call on, in an error of its own.
  if (has_one_of(text, device_texts)) return FailedPart::device;
  if (has_one_of(text, memory_texts)) return FailedPart::device_memory;
  if (has_one_of(text, communication_texts)) return FailedPart::communication;
  return FailedPart::program;
}

FailedPart failed_part(const std::exception& error) {
  if (is_connection_of_gloo(error)) return FailedPart::communication;
  const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
  if (of_torch == nullptr) return failed_part_of_text(error.what());
  if (dynamic_cast<const c10::OutOfMemoryError*>(of_torch) != nullptr) return FailedPart::device_memory;
  if (const auto* of_device = dynamic_cast<const c10::AcceleratorError*>(of_torch)) {
    const FailedPart part = failed_part_of_cuda(of_device->get_error_code());
    if (part != FailedPart::program) return part;
  }
  const std::string_view text = of_torch->what_without_backtrace();
  const FailedPart part = failed_part_of_text(text);
  // torch.distributed's own errors are of a store or of a peer, where they do not name the program's mistake.
  const bool is_of_group = dynamic_cast<const c10::DistError*>(of_torch) != nullptr;
  return is_of_group && part == FailedPart::program && !has_one_of(text, program_texts) ? FailedPart::communication
                                                                                        : part;
}

}  // namespace trainyard::dist
