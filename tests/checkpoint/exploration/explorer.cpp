#include "tests/checkpoint/exploration/explorer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "checkpoint/format/claim.hpp"

namespace trainyard::checkpoint::exploration {
namespace {

struct Writer {
  std::shared_ptr<const History> history = std::make_shared<History>();
  bool is_dead = false;
};

/// A change that may still happen.
struct LateChange {
  Call call;
  std::size_t author = 0;
};

struct World {
  Objects objects;
  std::vector<Writer> writers;
  std::vector<LateChange> late;
  int crashes = 0;
  int lost_replies = 0;
  int stale_lists = 0;
  int late_changes = 0;
  std::int64_t reported_step = 0;   // The step of the newest report.
  std::optional<std::size_t> turn;  // The writer that called last. Nothing if the number of preemptions is not bounded.
  int preemptions = 0;

  [[nodiscard]] std::uint64_t hash() const {
    std::uint64_t hash = objects.hash();
    for (const Writer& writer : writers) hash = combine(hash, writer.history->hash * 2 + (writer.is_dead ? 1 : 0));
    for (const LateChange& change : late)
      hash = combine(hash, combine(change.author, hash_of(change.call.content.data(), change.call.content.size())));
    for (const int count : {crashes, lost_replies, stale_lists, late_changes})
      hash = combine(hash, static_cast<std::uint64_t>(count));
    if (turn) hash = combine(hash, combine(*turn, static_cast<std::uint64_t>(preemptions)));
    return combine(hash, static_cast<std::uint64_t>(reported_step));
  }
};

/// One transition from a world.
struct Move {
  enum class Kind { answer, crash, lose_reply, delay, answer_stale, happen_late } kind = Kind::answer;
  std::size_t who = 0;  // The writer; for happen_late the index of the late change.
};

class Exploration {
 public:
  explicit Exploration(const Scenario& scenario) : scenario_{scenario} {}

  Findings run() {
    World begin;
    begin.writers.resize(scenario_.writers.size());
    for (const auto& [key, text] : scenario_.objects) {
      const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
      begin.objects.put(key, Bytes(bytes, bytes + text.size()), nobody);
    }
    visited_.insert(begin.hash());
    visit(std::move(begin));
    findings_.states = visited_.size();
    return findings_;
  }

 private:
  static constexpr std::size_t nobody = 99;

  struct Frame {
    World world;
    std::vector<Move> moves;
    std::string how;  // How its world came about.
  };

  void visit(World begin) {
    std::vector<Frame> path;
    path.push_back({.world = std::move(begin), .moves = {}, .how = {}});
    path.back().moves = moves_of(path.back().world);
    while (!path.empty() && findings_.violation.empty()) {
      Frame& frame = path.back();
      if (frame.moves.empty()) {
        path.pop_back();
        continue;
      }
      const Move move = frame.moves.back();
      frame.moves.pop_back();
      ++findings_.transitions;
      World world = frame.world;
      std::string how;
      std::string violation = take(move, world, how);
      const bool is_new = visited_.insert(world.hash()).second;
      if (violation.empty() && is_new) violation = check_loadable(world);
      if (!violation.empty()) return note_violation(path, how, violation);
      if (!is_new) continue;
      if (visited_.size() > scenario_.states_max)
        return note_violation(path, how, fmt::format("there are more than {} states", scenario_.states_max));
      std::vector<Move> moves = moves_of(world);
      path.push_back({.world = std::move(world), .moves = std::move(moves), .how = std::move(how)});
      findings_.depth_max = std::max(findings_.depth_max, path.size() - 1);
    }
  }

  void note_violation(const std::vector<Frame>& path, const std::string& last, const std::string& violation) {
    findings_.violation = violation + "\n";
    for (const Frame& frame : path) {
      if (!frame.how.empty()) findings_.violation += fmt::format("  {}\n", frame.how);
    }
    findings_.violation += fmt::format("  {}\n", last);
  }

  [[nodiscard]] bool can_go_on(const World& world, std::size_t who) {
    return !world.writers[who].is_dead && writer_state_of(who, *world.writers[who].history).next.has_value();
  }

  [[nodiscard]] bool is_preemption(const World& world, std::size_t who) {
    return world.turn && *world.turn != who && can_go_on(world, *world.turn);
  }

  [[nodiscard]] std::vector<Move> moves_of(const World& world) {
    std::vector<Move> moves;
    for (std::size_t place = 0; place < world.late.size(); ++place) moves.push_back({Move::Kind::happen_late, place});
    for (std::size_t who = 0; who < world.writers.size(); ++who) {
      if (!can_go_on(world, who)) continue;
      if (is_preemption(world, who) && world.preemptions == *scenario_.preemptions_max) continue;
      const Call& call = *writer_state_of(who, *world.writers[who].history).next;
      moves.push_back({Move::Kind::answer, who});
      // A writer that dies before it has changed anything leaves what it found.
      if (world.crashes < scenario_.crashes_max && call.changes_objects()) moves.push_back({Move::Kind::crash, who});
      if (world.lost_replies < scenario_.lost_replies_max && call.changes_objects())
        moves.push_back({Move::Kind::lose_reply, who});
      if (world.late_changes < scenario_.late_changes_max && call.kind == CallKind::put)
        moves.push_back({Move::Kind::delay, who});
      if (world.stale_lists < scenario_.stale_lists_max && call.kind == CallKind::list)
        moves.push_back({Move::Kind::answer_stale, who});
    }
    return moves;
  }

  // Carries out `move`. Returns the violated invariant, if any.
  std::string take(const Move& move, World& world, std::string& how) {
    if (move.kind == Move::Kind::happen_late) {
      const LateChange change = world.late[move.who];
      world.late.erase(world.late.begin() + static_cast<std::ptrdiff_t>(move.who));
      how = fmt::format("writer {}'s late change happens: {}", change.author, change.call.text());
      std::ignore = apply(change.call, change.author, world.objects);  // No writer gets the reply.
      return check_users_files(world);
    }
    Writer& writer = world.writers[move.who];
    const Call call = *writer_state_of(move.who, *writer.history).next;
    if (scenario_.preemptions_max) {
      if (is_preemption(world, move.who)) ++world.preemptions;
      world.turn = move.who;
    }
    const auto tell = [&](const char* fault) { how = fmt::format("writer {}: {}{}", move.who, call.text(), fault); };
    switch (move.kind) {
      case Move::Kind::crash:
        tell(": it dies before");
        writer.is_dead = true;
        ++world.crashes;
        return {};
      case Move::Kind::lose_reply:
        tell(": done, the reply is lost");
        ++world.lost_replies;
        if (std::string wrong = change(call, move.who, world); !wrong.empty()) return wrong;
        return learn(move.who, lost(), world);
      case Move::Kind::delay:
        tell(": late, the reply is lost");
        ++world.late_changes;
        world.late.push_back({.call = call, .author = move.who});
        return learn(move.who, lost(), world);
      case Move::Kind::answer_stale: {
        tell(": stale");
        ++world.stale_lists;
        return learn(move.who, stale_list(call, move.who, world), world);
      }
      default:
        break;
    }
    tell("");
    return answer(move.who, call, world, how);
  }

  // Where the store has no conditional create, a get and the put of that key right afterwards are one transition: such
  // a store keeps two writers apart only if neither pauses in between.
  std::string answer(std::size_t who, const Call& call, World& world, std::string& how) {
    std::string wrong = check_owner(call, who, world);
    Reply reply = apply(call, who, world.objects);
    if (wrong.empty() && call.changes_objects()) wrong = check_change(call, who, world);
    if (wrong.empty()) wrong = learn(who, std::move(reply), world);
    if (!wrong.empty() || scenario_.writers[who].has_conditional_create || call.kind != CallKind::get) return wrong;
    const auto& next = writer_state_of(who, *world.writers[who].history).next;
    if (!next || next->kind != CallKind::put || next->key != call.key) return {};
    how += ", and at once " + next->text();
    return answer(who, Call{*next}, world, how);
  }

  std::string change(const Call& call, std::size_t who, World& world) {
    std::string wrong = check_owner(call, who, world);
    std::ignore = apply(call, who, world.objects);  // The reply is lost.
    return wrong.empty() ? check_change(call, who, world) : wrong;
  }

  static Reply lost() {
    return {.error = Error{.kind = ErrorKind::unavailable, .message = "no reply"}, .content = {}, .listing = {}};
  }

  // A list in which the objects of other writers are missing.
  static Reply stale_list(const Call& call, std::size_t who, World& world) {
    Reply reply = apply(call, who, world.objects);
    std::erase_if(reply.listing,
                  [&](const storage::ObjectInfo& info) { return world.objects.find(info.key)->author != who; });
    return reply;
  }

  // Gives a writer its reply, and checks what the writer then reports.
  std::string learn(std::size_t who, Reply reply, World& world) {
    Writer& writer = world.writers[who];
    const std::size_t reported_before = writer_state_of(who, *writer.history).reported.size();
    writer.history = extended(*writer.history, std::move(reply));
    const WriterState& writer_state = writer_state_of(who, *writer.history);
    if (writer_state.memory) {
      // All histories with this memory go on alike. The first one found replaces the others, so that they are one
      // state.
      writer.history = histories_.try_emplace(combine(who, *writer_state.memory), writer.history).first->second;
    }
    if (writer_state.has_wrong_bytes) return "a writer restored bytes that are not those of the step";
    if (writer_state.reported.size() == reported_before) return {};
    ++findings_.reports;
    const CheckpointId& id = writer_state.reported.back();
    if (const auto limit = last_current_step_of(id.generation, world.objects); limit && id.step > *limit) {
      return fmt::format(
          "writer {} reports step {} of generation {}, which is superseded: a later run resumed from step {}", who,
          id.step, id.generation, *limit);
    }
    world.reported_step = id.step;
    return {};
  }

  // The last step of `generation` that is not superseded; nothing if none is.
  static std::optional<std::int64_t> last_current_step_of(std::int64_t generation, const Objects& objects) {
    std::optional<std::int64_t> limit;
    for (const auto& [key, object] : objects.all()) {
      const auto claimed = parse_claim_key(key);
      if (!claimed || *claimed <= generation) continue;
      const auto claim = parse_claim({reinterpret_cast<const char*>(object->content.data()), object->content.size()});
      if (!claim || claim->is_open) continue;
      const std::int64_t step = claim->resumed_from ? claim->resumed_from->step : 0;
      limit = std::min(limit.value_or(step), step);
    }
    return limit;
  }

  // Checks invariant 2 after a change by writer `who`.
  std::string check_change(const Call& call, std::size_t who, const World& world) {
    if (std::string wrong = check_users_files(world); !wrong.empty()) return wrong;
    const auto id = parse_checkpoint_key(call.key);
    const std::int64_t own = claimed_generation(who, world.objects);
    if (id && own > 0 && id->generation > own)
      return fmt::format("writer {} of generation {} changed {}", who, own, call.key);
    return {};
  }

  // Checks invariant 2 before a change by writer `who`: what another job wrote stays.
  std::string check_owner(const Call& call, std::size_t who, const World& world) const {
    const Object* object = call.changes_objects() ? world.objects.find(call.key) : nullptr;
    if (object == nullptr || object->author == nobody || (call.kind == CallKind::put && call.is_if_absent)) return {};
    if (is_same_life(scenario_.writers[object->author].identity, scenario_.writers[who].identity)) return {};
    return fmt::format("writer {} changes {}, which writer {} of another job wrote", who, call.key, object->author);
  }

  std::string check_users_files(const World& world) const {
    for (const auto& [key, text] : scenario_.objects) {
      const Object* object = world.objects.find(key);
      if (object == nullptr) return fmt::format("the user's file {} is gone", key);
      if (object->author != nobody) return fmt::format("the user's file {} was replaced", key);
    }
    return {};
  }

  // The generation whose claim writer `who` put; 0: none.
  static std::int64_t claimed_generation(std::size_t who, const Objects& objects) {
    std::int64_t claimed = 0;
    for (const auto& [key, object] : objects.all()) {
      if (const auto generation = parse_claim_key(key); generation && object->author == who) claimed = *generation;
    }
    return claimed;
  }

  // Checks invariants 1 and 3 for an attempt that begins in this world.
  std::string check_loadable(const World& world) {
    std::string wrong = check_loaded(loaded_of(world.objects, Lists::complete), world);
    if (!wrong.empty() || scenario_.stale_lists_max == 0) return wrong;
    wrong = check_loaded(loaded_of(world.objects, Lists::empty), world);
    return wrong.empty() ? wrong : "with lists that show nothing: " + wrong;
  }

  static std::string check_loaded(const Loaded& loaded, const World& world) {
    if (!loaded.error.empty()) return fmt::format("an attempt that begins now cannot resume: {}", loaded.error);
    if (loaded.has_wrong_bytes) return "an attempt that begins now gets bytes that are not those of the step";
    if (loaded.step < world.reported_step)
      return fmt::format("step {} was reported, and an attempt that begins now resumes from {}", world.reported_step,
                         loaded.step);
    if (const auto limit = last_current_step_of(loaded.generation, world.objects);
        loaded.step > 0 && limit && loaded.step > *limit) {
      return fmt::format(
          "an attempt that begins now resumes from step {} of generation {}, and a later one went on from {}",
          loaded.step, loaded.generation, *limit);
    }
    return {};
  }

  const Loaded& loaded_of(const Objects& objects, Lists lists) {
    const auto [place, is_new] = loads_.try_emplace(combine(objects.hash(), static_cast<std::uint64_t>(lists)));
    if (is_new) place->second = load(objects, next_attempt(objects), lists);
    return place->second;
  }

  // The next attempt of the job that claimed last, since another job may have to wait for its end.
  [[nodiscard]] Identity next_attempt(const Objects& objects) const {
    std::int64_t newest = 0;
    Identity identity = scenario_.writers.front().identity;
    for (const auto& [key, object] : objects.all()) {
      const auto generation = parse_claim_key(key);
      if (!generation || *generation <= newest) continue;
      newest = *generation;
      identity = scenario_.writers[object->author].identity;
    }
    identity.attempt = attempt_max;
    return identity;
  }

  const WriterState& writer_state_of(std::size_t who, const History& history) {
    const auto [place, is_new] = writer_states_.try_emplace(combine(who, history.hash));
    if (is_new) place->second = replay(scenario_.writers[who], who, history);
    return place->second;
  }

  const Scenario& scenario_;
  Findings findings_;
  std::unordered_set<std::uint64_t> visited_;
  // References into these maps stay good.
  std::unordered_map<std::uint64_t, Loaded> loads_;                              // By the objects and the lists.
  std::unordered_map<std::uint64_t, WriterState> writer_states_;                 // By writer and history.
  std::unordered_map<std::uint64_t, std::shared_ptr<const History>> histories_;  // By writer and memory.
};

}  // namespace

Findings explore(const Scenario& scenario) {
  return Exploration{scenario}.run();
}

}  // namespace trainyard::checkpoint::exploration
