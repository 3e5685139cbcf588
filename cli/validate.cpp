#include "cli/validate.hpp"

#include <fmt/format.h>

#include <ostream>

#include "cli/job_file.hpp"

namespace trainyard::cli {

int validate_files(const std::vector<std::string>& files, std::ostream& out, std::ostream& error) {
  bool is_good = true;
  bool has_checked = false;
  for (const auto& file : files) {
    const auto documents = read_documents(file);
    if (!documents) {
      error << "error: " << documents.error().message << '\n';
      is_good = false;
      continue;
    }
    for (const auto& document : *documents) {
      if (!document.is_ours()) {
        out << title_of(document) << ": not checked, only TrainingJobs are\n";
        continue;
      }
      has_checked = true;
      const auto violations = find_violations(document);
      for (const auto& violation : violations) out << title_of(document) << ": " << violation << '\n';
      if (violations.empty()) out << title_of(document) << ": valid\n";
      is_good &= violations.empty();
    }
  }
  if (is_good && !has_checked) {
    error << "error: there is no TrainingJob to check\n";
    return 1;
  }
  return is_good ? 0 : 1;
}

}  // namespace trainyard::cli
