#include "common/outage.hpp"

namespace trainyard {

bool Outage::add_failure(Instant now) {
  if (failures_ == 0) since_ = now;
  const bool is_told = failures_ == 0 || now - told_ >= told_interval;
  if (is_told) told_ = now;
  ++failures_;
  return is_told;
}

}  // namespace trainyard
