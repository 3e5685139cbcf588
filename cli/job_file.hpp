#pragma once

#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <string>
#include <vector>

#include "api/validation/schema.hpp"
#include "common/result.hpp"

namespace trainyard::cli {

/// One document of a YAML file, or one item of a document that is a list (kind: List). Empty documents have no number.
struct Document {
  std::string file;
  std::size_t number = 1;  ///< From 1.
  std::size_t item = 0;    ///< From 1; 0: the document is no list.
  nlohmann::json object;

  [[nodiscard]] std::string kind() const;  ///< Empty: the document has none.
  [[nodiscard]] std::string name() const;  ///< Empty: the document has none.
  /// True for a TrainingJob and for what was probably meant as one: our API group, a kind spelt much like ours, or no
  /// kind.
  [[nodiscard]] bool is_ours() const;
};

/// The documents of `file` ("-": standard input). ErrorKind::io if it cannot be read; invalid if it is no YAML or has
/// no document.
[[nodiscard]] Result<std::vector<Document>> read_documents(const std::string& file);

/// The name of `document` in messages: "a.yaml: document 2 (TrainingJob smoke)", "a.yaml: document 1, item 2 (...)".
[[nodiscard]] std::string title_of(const Document& document);

/// The reasons for which the API server would refuse the TrainingJob `document`, or later its pods: one text for each
/// violation, such as "spec.replicas: must be ...". After twenty texts, one more says how many are left out.
[[nodiscard]] std::vector<std::string> find_violations(const Document& document);

/// The TrainingJobs of `file`: valid, with names, and with defaults filled in. ErrorKind::invalid lists all violations,
/// or says that the file has no TrainingJob.
[[nodiscard]] Result<std::vector<Document>> read_valid_jobs(const std::string& file);

/// Mistyped fields of a job's spec.template: unknown to Kubernetes, and at most two letters away from a known field,
/// such as `resource` in a container. The API server accepts them in the job, and refuses them in its pods. Other
/// unknown fields may belong to a newer Kubernetes, and are accepted.
[[nodiscard]] std::vector<api::Violation> mistyped_template_fields(const nlohmann::json& job);

}  // namespace trainyard::cli
