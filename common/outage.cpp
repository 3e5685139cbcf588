#include "common/outage.hpp"

namespace trainyard {

bool Outage::add_failure(Instant now) {
  if (failures_ == 0) since_ = now;
  const bool should_log = failures_ == 0 || now - logged_ >= log_interval;
  if (should_log) logged_ = now;
  ++failures_;
  return should_log;
}

}  // namespace trainyard
