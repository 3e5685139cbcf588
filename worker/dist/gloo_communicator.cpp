#include "worker/dist/gloo_communicator.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "common/try.hpp"
#include "worker/dist/torch_error.hpp"
#include "worker/dist/wait_or_fail.hpp"
#include "worker/rank/rank_link.hpp"

namespace trainyard::dist {
namespace {

using Work = c10::intrusive_ptr<c10d::Work>;
using Start = std::function<Work()>;

constexpr std::string_view spreading = "the spreading of state";
// Large enough that the fixed cost of a message is small beside its bytes, small enough that its buffer stays in the
// cache. Several messages at a time keep the group's thread busy while this one copies.
constexpr std::uint64_t message_bytes_max = std::uint64_t{2} << 20;
constexpr std::size_t messages_at_a_time = 4;

c10d::BroadcastOptions from_root(std::int64_t root) {
  c10d::BroadcastOptions options;
  options.rootRank = root;
  return options;
}

std::span<std::byte> bytes_of(const at::Tensor& buffer, std::uint64_t count) {
  return {static_cast<std::byte*>(buffer.mutable_data_ptr()), count};
}

at::Tensor length_tensor(std::size_t length) {
  return at::full({1}, static_cast<std::int64_t>(length), at::kLong);
}

at::Tensor bytes_tensor(std::string_view text, std::int64_t length) {
  at::Tensor bytes = at::zeros({length}, at::kByte);
  if (!text.empty()) std::memcpy(bytes.mutable_data_ptr(), text.data(), text.size());
  return bytes;
}

std::string text_of(const at::Tensor& bytes, std::int64_t length) {
  return {static_cast<const char*>(bytes.const_data_ptr()), static_cast<std::size_t>(length)};
}

class GlooCommunicator final : public checkpoint::Communicator {
 public:
  GlooCommunicator(c10::intrusive_ptr<c10d::ProcessGroupGloo> group, std::chrono::milliseconds deadline,
                   rank::RankLink& link, UsedBy used_by)
      : group_{std::move(group)}, deadline_{deadline}, link_{link}, silent_link_{link}, used_by_{used_by} {}

  [[nodiscard]] std::int64_t rank() const override { return group_->getRank(); }
  [[nodiscard]] std::int64_t world_size() const override { return group_->getSize(); }

  [[nodiscard]] Result<std::string> broadcast(std::string_view text, std::int64_t root) override {
    const bool is_root = rank() == root;
    const c10d::BroadcastOptions options = from_root(root);
    std::vector<at::Tensor> length{length_tensor(is_root ? text.size() : 0)};
    TRY(run([&] { return group_->broadcast(length, options); }, "an agreement's broadcast"));
    const auto size = length.front().item<std::int64_t>();
    std::vector<at::Tensor> bytes{bytes_tensor(is_root ? text : std::string_view{}, size)};
    TRY(run([&] { return group_->broadcast(bytes, options); }, "an agreement's broadcast"));
    return text_of(bytes.front(), size);
  }

  [[nodiscard]] Result<std::vector<std::string>> all_gather(std::string_view text) override {
    const auto lengths = TRY(gather(length_tensor(text.size())));
    std::int64_t length_max = 0;
    for (const at::Tensor& length : lengths) length_max = std::max(length_max, length.item<std::int64_t>());
    // A collective needs equal sizes on all ranks: shorter texts are padded.
    const auto padded = TRY(gather(bytes_tensor(text, length_max)));
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < padded.size(); ++i)
      texts.push_back(text_of(padded[i], lengths[i].item<std::int64_t>()));
    return texts;
  }

  [[nodiscard]] Result<void> broadcast_parts(std::span<const checkpoint::BroadcastPart> parts) override {
    const std::vector<checkpoint::Message> messages = checkpoint::messages_of(parts, message_bytes_max);
    // The messages use the buffers in turn, because the kernel would have to clear new memory for each message. An
    // abandoned collective keeps its buffer alive, to which it may still write.
    std::vector<at::Tensor> buffers;
    for (std::size_t i = 0; i < std::min(messages_at_a_time, messages.size()); ++i)
      buffers.push_back(at::empty({static_cast<std::int64_t>(message_bytes_max)}, at::kByte));
    std::vector<Work> works(buffers.size());
    for (std::size_t i = 0; i < messages.size() + buffers.size(); ++i) {
      const std::size_t slot = i % buffers.size();
      if (i >= buffers.size()) {
        TRY(finish(works[slot], spreading));
        take(parts, messages[i - buffers.size()], buffers[slot]);
      }
      if (i >= messages.size()) continue;
      works[slot] = TRY(begin([&] { return send(parts, messages[i], buffers[slot]); }, spreading));
    }
    return {};
  }

 private:
  Work send(std::span<const checkpoint::BroadcastPart> parts, const checkpoint::Message& message,
            const at::Tensor& buffer) {
    const checkpoint::BroadcastPart& part = parts[message.part];
    if (part.root == rank()) checkpoint::copy_out(part, message, bytes_of(buffer, message.bytes()));
    std::vector<at::Tensor> bytes{buffer.narrow(0, 0, static_cast<std::int64_t>(message.bytes()))};
    return group_->broadcast(bytes, from_root(part.root));
  }

  void take(std::span<const checkpoint::BroadcastPart> parts, const checkpoint::Message& message,
            const at::Tensor& buffer) {
    const checkpoint::BroadcastPart& part = parts[message.part];
    if (part.root != rank()) checkpoint::copy_in(part, message, bytes_of(buffer, message.bytes()));
  }

  Result<std::vector<at::Tensor>> gather(const at::Tensor& own) {
    std::vector<std::vector<at::Tensor>> gathered(1);
    for (std::int64_t i = 0; i < world_size(); ++i) gathered.front().push_back(at::empty_like(own));
    std::vector<at::Tensor> input{own};
    TRY(run([&] { return group_->allgather(gathered, input); },
            "gathering the ranks' values (all_gather, metrics or an agreement)"));
    return gathered.front();
  }

  Result<void> run(const Start& start, std::string_view what) {
    return begin(start, what).and_then([&](const Work& work) { return finish(work, what); });
  }

  Result<Work> begin(const Start& start, std::string_view what) {
    if (failure_) return tl::unexpected(*failure_);
    try {
      return start();
    } catch (const std::exception& error) {
      failure_ = fail(ErrorKind::unavailable, std::string{what} + " could not start: " + message_of(error)).value();
      return tl::unexpected(*failure_);
    }
  }

  Result<void> finish(const Work& work, std::string_view what) {
    rank::RankLink& link = used_by_ == UsedBy::training_thread ? link_ : silent_link_;
    auto done = wait_or_fail(work, link, deadline_, what);
    if (!done) failure_ = done.error();
    return done;
  }

  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  std::chrono::milliseconds deadline_;
  rank::RankLink& link_;
  rank::SilentLink silent_link_;
  UsedBy used_by_;
  std::optional<Error> failure_;  // Set by the first failed collective: the ranks no longer agree on the next one, so
                                  // all later ones fail too.
};

}  // namespace

std::unique_ptr<checkpoint::Communicator> make_gloo_communicator(c10::intrusive_ptr<c10d::ProcessGroupGloo> group,
                                                                 std::chrono::milliseconds deadline,
                                                                 rank::RankLink& link, UsedBy used_by) {
  return std::make_unique<GlooCommunicator>(std::move(group), deadline, link, used_by);
}

}  // namespace trainyard::dist
