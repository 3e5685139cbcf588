#include "checkpoint/format/claim.hpp"

#include "checkpoint/format/sealed_json.hpp"

namespace trainyard::checkpoint {
namespace {

constexpr const char* open_text = "open";

}  // namespace

std::string to_text(const Claim& claim) {
  nlohmann::json object = {{"generation", claim.generation},
                           {"job", claim.identity.job},
                           {"jobUid", claim.identity.job_uid},
                           {"attempt", claim.identity.attempt},
                           {"fingerprint", claim.identity.fingerprint},
                           {"resumedFrom", nullptr},
                           {"timeMilliseconds", claim.time.time_since_epoch().count()},
                           {"nonce", claim.nonce}};
  if (!claim.process.empty()) object["process"] = claim.process;
  if (claim.is_open) {
    object["resumedFrom"] = open_text;
  } else if (claim.resumed_from) {
    object["resumedFrom"] = {{"step", claim.resumed_from->step}, {"generation", claim.resumed_from->generation}};
  }
  return seal(std::move(object));
}

Result<Claim> parse_claim(std::string_view text) {
  return unseal(text).and_then([](const nlohmann::json& object) {
    return read_fields("a generation's claim", [&] {
      Claim claim;
      claim.generation = object.at("generation").get<std::int64_t>();
      claim.identity = {.job = object.at("job").get<std::string>(),
                        .job_uid = object.at("jobUid").get<std::string>(),
                        .attempt = object.at("attempt").get<std::int64_t>(),
                        .fingerprint = object.at("fingerprint").get<std::string>()};
      const auto& from = object.at("resumedFrom");
      claim.is_open = from == open_text;
      if (!claim.is_open && !from.is_null()) {
        claim.resumed_from = CheckpointId{.step = from.at("step").get<std::int64_t>(),
                                          .generation = from.at("generation").get<std::int64_t>()};
      }
      claim.time = Time{std::chrono::milliseconds{object.at("timeMilliseconds").get<std::int64_t>()}};
      claim.nonce = object.at("nonce").get<std::string>();
      claim.process = object.value("process", "");
      return claim;
    });
  });
}

}  // namespace trainyard::checkpoint
