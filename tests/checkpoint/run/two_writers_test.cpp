// The older of two writers of one prefix wakes up late, at any point of what the newer one does.
#include "tests/checkpoint/run/two_writers.hpp"

#include <gtest/gtest.h>

#include <mutex>
#include <vector>

namespace trainyard::checkpoint {
namespace {

/// Both run in memory; each may be taken for dead at each change of turns.
class InMemory : public testing::Test {
 protected:
  void expect_well(const std::vector<int>& bursts) {
    fakes::MemoryObjects objects;
    TwoWriters writers{[&] { return std::make_unique<fakes::MemoryStore>(objects); }};
    writers.on_change = [&] {
      fakes::MemoryObjects copy;
      {
        const std::scoped_lock lock{objects.mutex};  // A writer may remove several objects at a time.
        copy.objects = objects.objects;
      }
      writers.expect_nothing_reported_is_lost([&] { return std::make_unique<fakes::MemoryStore>(copy); });
    };
    writers.run(bursts);
    writers.expect_all_is_well();
  }

  static constexpr int older_steps = 64;  // No fewer than the older one takes.
  static constexpr int newer_steps = 44;
};

TEST_F(InMemory, TheOlderWriterIsFencedAndHarmsNothingWhereverItStoodStill) {
  // The older one pauses while the newer one runs from its beginning to its end.
  for (int older = 0; older <= older_steps; ++older) {
    SCOPED_TRACE(testing::Message() << "after step " << older);
    expect_well({older});
    if (HasFailure()) return;
  }
}

TEST_F(InMemory, TheOlderWriterIsFencedAndHarmsNothingWhereverItWakesUp) {
  // Steps of the newer one that a neighbour leaves out; all pairs would take a sanitizer an hour.
  for (int older = 0; older <= older_steps; ++older) {
    for (int newer = older * 3 % 8; newer <= newer_steps; newer += 8) {
      SCOPED_TRACE(testing::Message() << "stood still after step " << older << " until the newer one's step " << newer);
      expect_well({older, newer});
      if (HasFailure()) return;
    }
  }
}

TEST_F(InMemory, TheOlderWriterIsFencedAndHarmsNothingWhenItWakesUpForAMomentOnly) {
  // The older one pauses in the middle of its third save.
  for (int older = 30; older <= 50; older += 4) {
    for (int newer = 1; newer <= newer_steps; newer += 8) {
      for (int awake = 1; awake <= 13; awake += 6) {
        SCOPED_TRACE(testing::Message() << "after step " << older << " until the newer one's step " << newer
                                        << ", and again after " << awake << " more");
        expect_well({older, newer, awake});
        if (HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace trainyard::checkpoint
