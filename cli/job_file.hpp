#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/result.hpp"

namespace trainyard::cli {

/// One document of a YAML file, or one item of a document that is a list (kind: List). Empty documents are not counted.
struct Document {
  std::string file;
  std::size_t number = 1;  ///< From 1.
  std::size_t item = 0;    ///< From 1; 0: the document is no list.
  nlohmann::json object;

  [[nodiscard]] std::string kind() const;  ///< Empty when it says none.
  [[nodiscard]] std::string name() const;  ///< Empty when it has none.
  /// A TrainingJob, or what was meant to be one: of our API, of a kind that is nearly spelt like ours, or of none.
  [[nodiscard]] bool is_ours() const;
};

/// The documents of `file` ("-": standard input). ErrorKind::io when it cannot be read, invalid when it is no YAML or
/// holds none.
[[nodiscard]] Result<std::vector<Document>> read_documents(const std::string& file);

/// "examples/a.yaml: document 2 (TrainingJob smoke)", "a.yaml: document 1, item 2 (TrainingJob smoke)"
[[nodiscard]] std::string title_of(const Document& document);

/// Why the API server would refuse `document`, a TrainingJob, or later its pods: one text for each violation,
/// "spec.replicas: must be ...". After twenty texts one more says how many are left out.
[[nodiscard]] std::vector<std::string> find_violations(const Document& document);

/// The TrainingJobs of `file`, each with a name, without violations and with its defaults filled in. ErrorKind::invalid
/// with every violation, and for a file without TrainingJobs.
[[nodiscard]] Result<std::vector<Document>> read_valid_jobs(const std::string& file);

}  // namespace trainyard::cli
