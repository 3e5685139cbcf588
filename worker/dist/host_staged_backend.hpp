#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace trainyard::dist {

/// A backend for tensors of a device whose collectives run on the host by `host`: each tensor is copied to the host,
/// exchanged there, and its result is copied back. For strategy.processGroupBackend gloo on GPUs.
///
/// Has broadcast, allreduce, reduce, allgather, _allgather_base, alltoall_base and barrier; the others throw, as those
/// that a backend of torch does not support. A call waits until the device has computed its inputs. Its Work is one of
/// the host (wait_or_fail.hpp): once it is done, results may be used on every stream, and its future has the tensors of
/// the device. The tensors must not be used between the call and the Work's end.
[[nodiscard]] c10::intrusive_ptr<c10d::Backend> make_host_staged_backend(c10::intrusive_ptr<c10d::Backend> host);

/// True for a Work of such a backend whose exchange with other ranks is over: it waits for this rank's device alone,
/// and fails only as this rank's own.
[[nodiscard]] bool waits_for_own_device_alone(const c10d::Work& work);

}  // namespace trainyard::dist
