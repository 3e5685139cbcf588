#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "api/yaml/yaml.hpp"

/// Writes the C++ file that embeds the CRD. Arguments: the CRD's YAML file, the file to write.
int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: trainyard-embed-crd CRD_FILE CPP_FILE\n");
    return 2;
  }
  std::ifstream crd{argv[1]};
  const auto documents = trainyard::api::parse_yaml(std::string{std::istreambuf_iterator<char>{crd}, {}});
  if (!documents || documents->size() != 1) {
    fmt::print(stderr, "{}: {}\n", argv[1], documents ? "is not one YAML document" : documents.error().message);
    return 1;
  }
  std::ofstream source{argv[2]};
  source << "#include \"api/validation/validate.hpp\"\n\nnamespace trainyard::api {\n\n"
         << "std::string_view training_job_crd() { return R\"~~~(" << documents->front().dump()
         << ")~~~\"; }\n\n}  // namespace trainyard::api\n";
  source.close();
  if (!source) {
    fmt::print(stderr, "{} cannot be written\n", argv[2]);
    return 1;
  }
  return 0;
}
