#include "worker/rank/error_file.hpp"

#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "api/contract.hpp"

namespace trainyard::rank {

std::string make_error_file(const RankEnd& end, Time time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
  const nlohmann::json object{{"message",
                               {{"message", fmt::format("{}: {}", end.reason, end.message)},
                                {"errorCode", end.exit_code},
                                {"extraInfo", {{"timestamp", std::to_string(seconds)}}}}}};
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<void> write_error_file(const Environment& environment, const RankEnd& end, Time time) {
  const auto path = environment(env_elastic_error_file);
  if (!path || end.exit_code == contract::exit_success) return {};
  std::ofstream file{*path, std::ios::trunc};
  file << make_error_file(end, time) << std::flush;
  if (!file) return fail(ErrorKind::io, fmt::format("writing torchrun's error file {} failed", *path));
  return {};
}

}  // namespace trainyard::rank
