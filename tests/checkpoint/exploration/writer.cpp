#include "tests/checkpoint/exploration/writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "checkpoint/run/run.hpp"
#include "common/check.hpp"
#include "tests/fakes/fake_clock.hpp"
#include "tests/fakes/memory_store.hpp"

namespace trainyard::checkpoint {

/// Writes down all that a run keeps between two of its calls. For runs of one rank without a local tier.
struct RunMemory {
  static std::string text_of(const Run& run) {
    const Retention& retention = run.retention_;
    std::string text = fmt::format("{} {}", run.commit_count_, retention.has_removed_unfinished_);
    if (run.last_saved_) text += to_text(*run.last_saved_);
    if (run.resumption_) text += to_text(run.resumption_->claim);  // What it restored is not read again.
    for (const Claim& claim : retention.claims_) text += to_text(claim);
    for (const CheckpointId& id : retention.complete_) text += " complete " + folder_key(id);
    for (const auto& [id, facts] : retention.notes_) text += " noted " + folder_key(id);
    if (retention.newest_) text += " newest " + folder_key(*retention.newest_);
    check(!retention.keep_.needs_facts(), "retention by count alone does not read the facts that it holds");
    return text;
  }
};

}  // namespace trainyard::checkpoint

namespace trainyard::checkpoint::exploration {
namespace {

/// Thrown out of the store's call that has no reply yet, through the code of the run.
struct Unanswered {
  Call call;
};

/// Answers from a history, and then throws Unanswered.
class ReplayedStore final : public storage::Store {
 public:
  ReplayedStore(const History& history, bool has_conditional_create)
      : history_{history}, has_conditional_create_{has_conditional_create} {}

  Result<void> probe() override { return {}; }
  Result<void> put(std::string_view key, storage::Pieces pieces, const storage::PutOptions& options) override {
    Call call{.kind = CallKind::put, .key = std::string{key}, .content = {}, .is_if_absent = options.if_absent};
    for (const auto& piece : pieces) call.content.insert(call.content.end(), piece.begin(), piece.end());
    return done(answer(std::move(call)));
  }
  Result<Bytes> get(std::string_view key) override {
    const Reply& reply = answer({.kind = CallKind::get, .key = std::string{key}, .content = {}});
    if (reply.error) return tl::unexpected(*reply.error);
    return reply.content;
  }
  Result<void> get_range(std::string_view key, std::uint64_t offset, std::span<std::byte> into) override {
    const Reply& reply = answer(
        {.kind = CallKind::get_range, .key = std::string{key}, .content = {}, .offset = offset, .size = into.size()});
    if (reply.error) return tl::unexpected(*reply.error);
    check(reply.content.size() == into.size(), "the reply to get_range has as many bytes as were asked for");
    std::ranges::copy(reply.content, into.begin());
    return {};
  }
  Result<std::vector<storage::ObjectInfo>> list(std::string_view prefix) override {
    const Reply& reply = answer({.kind = CallKind::list, .key = std::string{prefix}, .content = {}});
    if (reply.error) return tl::unexpected(*reply.error);
    return reply.listing;
  }
  Result<void> remove(std::string_view key, const std::stop_token& = {}) override {
    return done(answer({.kind = CallKind::remove, .key = std::string{key}, .content = {}}));
  }
  Result<void> remove_unfinished(const std::function<bool(std::string_view)>&) override { return {}; }
  [[nodiscard]] bool has_conditional_create() const override { return has_conditional_create_; }
  [[nodiscard]] std::size_t concurrency() const override { return 1; }  // One thread makes all calls.
  [[nodiscard]] std::string uri_of(std::string_view key) const override { return fmt::format("model://{}", key); }
  [[nodiscard]] bool has_given_all_replies() const { return next_ == history_.replies.size(); }

 private:
  const Reply& answer(Call call) {
    if (next_ == history_.replies.size()) throw Unanswered{std::move(call)};
    return history_.replies[next_++];
  }
  static Result<void> done(const Reply& reply) { return reply.error ? tl::unexpected(*reply.error) : Result<void>{}; }

  const History& history_;
  const bool has_conditional_create_;
  std::size_t next_ = 0;
};

/// A training state of one tensor, which holds the number of its step.
class State {
 public:
  explicit State(std::int64_t step) { set(step); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  void set(std::int64_t step) { std::memcpy(bytes_.data(), &step, sizeof step); }
  [[nodiscard]] bool is_of(std::int64_t step) const { return std::memcmp(bytes_.data(), &step, sizeof step) == 0; }
  [[nodiscard]] std::span<const HostEntry> entries() const { return {&entry_, 1}; }

 private:
  std::array<std::byte, sizeof(std::int64_t)> bytes_{};
  HostEntry entry_{.info = {.name = "model.step",
                            .placement = Placement::replicated,
                            .dtype = "I64",
                            .shape = {1},
                            .bytes = sizeof(std::int64_t)},
                   .bytes = bytes_};
};

/// The value of a checkpoint that names the generation that wrote it.
constexpr const char* generation_value = "generation";

/// 32 digits, as make_nonce() makes, which differ between writers and between their claims.
std::string nonce_of(std::size_t author, int count) {
  return fmt::format("{:016x}{:016x}", author + 1, count);
}

/// The error is the first one that ends a run. A storage that does not answer ends no training: the next save tries
/// again.
bool ends_the_run(const Error& error) {
  return error.kind != ErrorKind::unavailable && error.kind != ErrorKind::timeout;
}

void run_script(const Script& script, std::size_t author, ReplayedStore& store, WriterState& writer_state) {
  SingleCommunicator communicator;
  fakes::FakeClock clock;
  clock.advance(std::chrono::hours{24} * author);  // No grace time hides what a later writer may remove.
  State state{-1};
  int nonces = 0;
  Run run{RunContext{.store = store,
                     .communicator = communicator,
                     .clock = clock,
                     .identity = script.identity,
                     .keep = {.last = 2, .every_steps = {}, .every_epochs = {}, .best = {}},
                     .make_nonce = [&] { return nonce_of(author, ++nonces); }}};
  const auto restored = run.restore(state.entries());
  if (!restored) {
    writer_state.error = restored.error();
    return;
  }
  std::int64_t step = *restored ? (*restored)->step : 0;
  writer_state.has_wrong_bytes = *restored && !state.is_of(step);
  const auto note_memory = [&](const char* place, int save) {
    if (!store.has_given_all_replies() || writer_state.memory) return;
    const std::string text = fmt::format("{} {} of step {} after {} reports: {}", place, save, step,
                                         writer_state.reported.size(), RunMemory::text_of(run));
    writer_state.memory = hash_of(text.data(), text.size());
  };
  for (int save = 0; save < script.saves; ++save) {
    note_memory("before save", save);
    state.set(++step);
    const auto saved = run.save(state.entries(), {{generation_value, run.generation()}}, step, /*is_final=*/false);
    if (saved) {
      writer_state.reported.push_back({.step = step, .generation = run.generation()});
      note_memory("before the removal after save", save);
      run.tidy_up();
    } else if (ends_the_run(saved.error())) {
      writer_state.error = saved.error();
      return;
    }
  }
  note_memory("before the end after save", script.saves);
  if (const auto ended = run.end(); !ended) writer_state.error = ended.error();
}

}  // namespace

std::shared_ptr<const History> extended(const History& history, Reply reply) {
  auto longer = std::make_shared<History>(history);
  longer->hash = combine(history.hash, reply.hash());
  longer->replies.push_back(std::move(reply));
  return longer;
}

WriterState replay(const Script& script, std::size_t author, const History& history) {
  WriterState writer_state;
  ReplayedStore store{history, script.has_conditional_create};
  try {
    run_script(script, author, store, writer_state);
  } catch (Unanswered& unanswered) {
    writer_state.next = std::move(unanswered.call);
  }
  return writer_state;
}

Loaded load(const Objects& objects, const Identity& identity, Lists lists) {
  fakes::MemoryObjects copy;
  for (const auto& [key, object] : objects.all()) {
    copy.objects.emplace(key, object->content);
    if (lists == Lists::empty) copy.unlisted.insert(key);
  }
  fakes::MemoryStore store{copy};
  SingleCommunicator communicator;
  fakes::FakeClock clock;
  clock.advance(std::chrono::hours{24} * attempt_max);
  State state{-1};
  Run run{RunContext{.store = store,
                     .communicator = communicator,
                     .clock = clock,
                     .identity = identity,
                     .keep = {.last = 2, .every_steps = {}, .every_epochs = {}, .best = {}}}};
  const auto restored = run.restore(state.entries());
  if (!restored) return {.error = restored.error().message};
  if (!*restored) return {};
  const std::int64_t step = (*restored)->step;
  return {.step = step,
          .generation = (*restored)->values.value(generation_value, std::int64_t{0}),
          .has_wrong_bytes = !state.is_of(step),
          .error = {}};
}

Identity identity_of_attempt(std::int64_t attempt, const std::string& job) {
  return {.job = "team/" + job, .job_uid = "uid-" + job, .attempt = attempt, .fingerprint = "fashion"};
}

}  // namespace trainyard::checkpoint::exploration
