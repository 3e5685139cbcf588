#include "worker/train/ddp_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "common/try.hpp"
#include "include/trainyard/options.hpp"
#include "worker/train/program_call.hpp"

namespace trainyard::train {
namespace {

static_assert(DdpSettings{}.bucket_mib == api::ddp_bucket_mib);

DdpSettings settings_of(const api::StrategySpec& strategy) {
  return {.bucket_mib = strategy.bucket_mib.value_or(api::ddp_bucket_mib),
          .broadcast_buffers = strategy.broadcast_buffers,
          .sync_batch_norm = strategy.sync_batch_norm};
}

std::string settings_text(const DdpSettings& settings) {
  return fmt::format("bucket_mib {}, broadcast_buffers {}, sync_batch_norm {}", settings.bucket_mib,
                     settings.broadcast_buffers, settings.sync_batch_norm);
}

}  // namespace

Result<api::StrategySpec> with_settings(api::StrategySpec strategy, const DdpSettings& settings) {
  if (settings.bucket_mib < 1 || settings.bucket_mib > api::bucket_mib_max) {
    return fail(ErrorKind::invalid, fmt::format("configure_ddp() set bucket_mib to {}: 1 to {} are allowed",
                                                settings.bucket_mib, api::bucket_mib_max));
  }
  if (settings.sync_batch_norm && strategy.name == api::StrategyName::ddp2) {
    return fail(ErrorKind::invalid,
                "configure_ddp() set sync_batch_norm, which the strategy ddp2 does not have: name ddp in the job, or "
                "leave it false");
  }
  if (settings.sync_batch_norm && strategy.join) {
    return fail(
        ErrorKind::invalid,
        "configure_ddp() set sync_batch_norm, whose exchanges in the forward pass a rank without samples would not "
        "take part in: leave it false, or strategy.join out of the job");
  }
  strategy.bucket_mib = settings.bucket_mib;
  strategy.broadcast_buffers = settings.broadcast_buffers;
  strategy.sync_batch_norm = settings.sync_batch_norm;
  return strategy;
}

Result<api::StrategySpec> configure_ddp(Module& module, const dist::Group& group, const api::StrategySpec& strategy) {
  const bool is_ddp = strategy.name == api::StrategyName::ddp || strategy.name == api::StrategyName::ddp2;
  if (!is_ddp || group.world_size == 1) return strategy;
  DdpSettings settings = settings_of(strategy);
  {
    const ProgramCall call{"configure_ddp()"};
    module.configure_ddp(settings);
  }
  const auto texts = TRY(group.communicator->all_gather(settings_text(settings)));
  // Compared first: all ranks then find the same mistake in their settings.
  if (const auto other = std::ranges::find_if(texts, [&](const auto& text) { return text != texts[0]; });
      other != texts.end()) {
    throw InvalidJob{fmt::format("configure_ddp() must make the same settings on all ranks: rank 0 has {}, rank {} {}",
                                 texts[0], other - texts.begin(), *other)};
  }
  auto configured = with_settings(strategy, settings);
  if (!configured) throw InvalidJob{configured.error().message};
  return configured;
}

}  // namespace trainyard::train
