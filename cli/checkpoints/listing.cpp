#include "cli/checkpoints/listing.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "cli/text/output.hpp"
#include "common/time_text.hpp"

namespace trainyard::cli {
namespace {

using checkpoint::Catalogue;
using checkpoint::EntryInfo;
using checkpoint::folder_key;
using checkpoint::Listed;
using checkpoint::Manifest;
using nlohmann::json;

constexpr const char* unknown = "-";

std::string or_unknown(const std::string& text) {
  return text.empty() ? unknown : printable(text);
}

std::string state_text(const Listed& listed) {
  std::string state{to_string(listed.standing)};
  return listed.reason.empty() ? state : state + ": " + printable(listed.reason);
}

std::string shape_text(const EntryInfo& entry) {
  return fmt::format("[{}]", fmt::join(entry.shape, ", "));
}

std::string entries_text(const Manifest& manifest) {
  std::vector<Row> rows = {{"ENTRY", "TYPE", "SHAPE", "PLACEMENT", "BYTES"}};
  for (const EntryInfo& entry : manifest.entries) {
    rows.push_back({printable(entry.name), printable(entry.dtype), shape_text(entry),
                    std::string{to_string(entry.placement)}, human_bytes(entry.bytes)});
  }
  return table(rows, {false, false, false, false, true});
}

std::string values_text(const json& values) {
  std::vector<Row> rows;
  for (const auto& [name, value] : values.items()) {
    if (!value.is_object()) {
      rows.push_back({"  " + printable(name), printable(value.dump())});
      continue;
    }
    for (const auto& [inner, number] : value.items())
      rows.push_back({"  " + printable(name) + "." + printable(inner), printable(number.dump())});
  }
  return rows.empty() ? std::string{} : "Values\n" + table(rows, {false, false});
}

}  // namespace

std::string listing_text(const Catalogue& catalogue) {
  std::vector<Row> rows = {{"STEP", "GENERATION", "TIME", "BYTES", "RANKS", "JOB", "STATE"}};
  for (const Listed& listed : catalogue.checkpoints) {
    const auto& manifest = listed.manifest;
    rows.push_back({std::to_string(listed.id.step), std::to_string(listed.id.generation),
                    manifest ? format_rfc3339(manifest->time) : unknown, human_bytes(listed.bytes),
                    manifest ? std::to_string(manifest->receipts.size()) : unknown, or_unknown(listed.job),
                    state_text(listed)});
  }
  return table(rows, {true, true, false, true, true, false, false});
}

json listing_json(const Catalogue& catalogue, const storage::Store& store) {
  json list = json::array();
  for (const Listed& listed : catalogue.checkpoints) {
    json object = {{"step", listed.id.step},
                   {"generation", listed.id.generation},
                   {"uri", store.uri_of(folder_key(listed.id))},
                   {"bytes", listed.bytes},
                   {"state", to_string(listed.standing)}};
    if (!listed.job.empty()) object["job"] = listed.job;
    if (!listed.reason.empty()) object["reason"] = listed.reason;
    if (listed.manifest) {
      object["time"] = format_rfc3339(listed.manifest->time);
      object["worldSize"] = listed.manifest->receipts.size();
      object["jobUid"] = listed.manifest->identity.job_uid;
      object["attempt"] = listed.manifest->identity.attempt;
    }
    list.push_back(std::move(object));
  }
  return list;
}

std::string description_text(const Listed& listed, const storage::Store& store) {
  std::vector<Row> rows = {{"URI", store.uri_of(folder_key(listed.id))},
                           {"State", state_text(listed)},
                           {"Step", std::to_string(listed.id.step)},
                           {"Generation", std::to_string(listed.id.generation)},
                           {"Job", or_unknown(listed.job)}};
  if (!listed.manifest) return table(rows, {false, false});
  const Manifest& manifest = *listed.manifest;
  rows.push_back({"UID", or_unknown(manifest.identity.job_uid)});
  rows.push_back({"Attempt", std::to_string(manifest.identity.attempt)});
  rows.push_back({"Fingerprint", or_unknown(manifest.identity.fingerprint)});
  rows.push_back({"Time", format_rfc3339(manifest.time)});
  rows.push_back({"Ranks", std::to_string(manifest.receipts.size())});
  rows.push_back({"Bytes", fmt::format("{} ({})", human_bytes(listed.bytes), listed.bytes)});
  return table(rows, {false, false}) + values_text(manifest.values) + "\n" + entries_text(manifest);
}

json description_json(const Listed& listed, const storage::Store& store) {
  json object = listing_json({.inventory = {}, .checkpoints = {listed}}, store).front();
  if (!listed.manifest) return object;
  object["fingerprint"] = listed.manifest->identity.fingerprint;
  object["values"] = listed.manifest->values;
  object["entries"] = json::array();
  for (const EntryInfo& entry : listed.manifest->entries) {
    object["entries"].push_back({{"name", entry.name},
                                 {"dtype", entry.dtype},
                                 {"shape", entry.shape},
                                 {"placement", to_string(entry.placement)},
                                 {"bytes", entry.bytes}});
  }
  return object;
}

json verification_json(const checkpoint::CheckpointId& id, const checkpoint::Verification& verification,
                       const storage::Store& store) {
  return {{"step", id.step},
          {"generation", id.generation},
          {"uri", store.uri_of(folder_key(id))},
          {"isWhole", verification.damages.empty()},
          {"bytes", verification.bytes},
          {"damages", verification.damages}};
}

}  // namespace trainyard::cli
