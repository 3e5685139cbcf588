#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace trainyard::dist {

/// A backend for tensors of a device whose collectives run on the host by `host`: each tensor is copied to the host,
/// exchanged there, and its result is copied back. For strategy.processGroupBackend gloo on GPUs.
///
/// Has broadcast, allreduce, reduce, allgather, _allgather_base, alltoall_base and barrier; the others throw, as those
/// that a backend of torch does not support. A call waits until the device has computed its inputs. Its Work is one of
/// the host (wait_or_fail.hpp): once it is done, results may be used on every stream, and its future has the tensors of
/// the device. The tensors must not be used between the call and the Work's end.
[[nodiscard]] c10::intrusive_ptr<c10d::Backend> make_host_staged_backend(c10::intrusive_ptr<c10d::Backend> host);

}  // namespace trainyard::dist
