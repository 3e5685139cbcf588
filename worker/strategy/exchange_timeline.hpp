#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/clock.hpp"

namespace trainyard::strategy {

/// The moments of the exchange of one bucket in one step.
struct BucketExchangeTimes {
  std::size_t track = 0;
  Instant filled;    ///< The last of its gradients was there.
  Instant sent;      ///< Its first collective was begun, after those of the buckets before it.
  Instant finished;  ///< The training thread had its result; on a GPU: had queued the wait for it.
};

/// Records when each bucket of gradients was filled, sent and received on one rank, for a picture of it in Chrome's
/// format. Called by one thread at a time: that of the training, or that of a backward pass for which it waits.
class ExchangeTimeline {
 public:
  static constexpr std::size_t default_exchanges_max = 100'000;

  /// Records the first `exchanges_max` exchanges, and none after them.
  explicit ExchangeTimeline(std::function<Instant()> now, std::size_t exchanges_max = default_exchanges_max);

  /// Returns the number of a new row of the picture.
  [[nodiscard]] std::size_t add_track(std::string name, std::int64_t bytes);
  // In this order for each exchange of the track's bucket:
  void note_filled(std::size_t track) { at(track).filled = now_(); }
  void note_sent(std::size_t track) { at(track).sent = now_(); }
  void note_finished(std::size_t track);

  [[nodiscard]] bool is_full() const { return exchanges_.size() >= exchanges_max_; }
  /// The trace event format of Chrome and Perfetto, in microseconds since this object was made: for each exchange one
  /// event "queued", where the bucket waited for those before it, and one "exchange". `rank` is the process.
  [[nodiscard]] nlohmann::json chrome_trace(std::int64_t rank) const;

 private:
  struct Track {
    std::string name;
    std::int64_t bytes = 0;
    BucketExchangeTimes present{};
  };

  [[nodiscard]] BucketExchangeTimes& at(std::size_t track) { return tracks_[track].present; }

  std::function<Instant()> now_;
  std::size_t exchanges_max_;
  Instant began_;
  std::vector<Track> tracks_;
  std::vector<BucketExchangeTimes> exchanges_;
};

}  // namespace trainyard::strategy
