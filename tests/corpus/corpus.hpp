#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace trainyard::corpus {

/// One TrainingJob, and the expected verdict. The files beside this one hold them; metadata.yaml describes their form.
struct Case {
  std::string file;
  std::string name;
  nlohmann::json object;
  std::optional<nlohmann::json> before;  ///< The stored form, where the case is a change.
  std::string field;                     ///< Where the refusal is; empty where it is in the whole object.
  std::string says;                      ///< Part of the sentence that refuses; empty: the object is accepted.
  std::string server_says;               ///< Part of the API server's sentence.
  std::string server_field;              ///< The field in the API server's words.
};

/// Every case of every file. Throws what a test reports when a file is malformed.
[[nodiscard]] std::vector<Case> load();

std::ostream& operator<<(std::ostream& out, const Case& tested);

}  // namespace trainyard::corpus
