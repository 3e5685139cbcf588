#include "cli/render.hpp"

#include <fmt/format.h>

#include <ostream>

#include "api/training_job.hpp"
#include "cli/job_file.hpp"
#include "cli/text/output.hpp"
#include "common/try.hpp"
#include "operator/manifest/cluster_traits.hpp"
#include "operator/manifest/containers.hpp"
#include "operator/manifest/objects.hpp"

namespace trainyard::cli {
namespace {

using nlohmann::json;

Result<std::string> render(Document document, const RenderOptions& options) {
  json& metadata = document.object["metadata"];
  metadata["uid"] = "00000000-0000-0000-0000-000000000000";
  metadata.emplace("namespace", options.name_space);
  auto job = TRY(api::parse_training_job(document.object));
  const manifest::Settings settings{.worker_image_cpu = options.worker_image,
                                    .worker_image_cuda = options.worker_image};
  if (const std::string fault = manifest::template_fault(job.spec, settings); !fault.empty())
    return fail(ErrorKind::invalid, fault);
  job.status.attempt = 1;
  job.status.replicas.desired = job.spec.replicas;
  if (manifest::needs_worker_image(job.spec)) job.status.worker_image = options.worker_image;

  std::string text = "---\n" + to_yaml(manifest::build_service(job));
  for (std::int64_t rank = 0; rank < job.spec.replicas; ++rank) {
    text += "---\n" + to_yaml(manifest::build_pod(job, rank, manifest::kubernetes_traits(), settings));
  }
  return text;
}

}  // namespace

int render_file(const RenderOptions& options, std::ostream& out, std::ostream& error) {
  const auto jobs = read_valid_jobs(options.file);
  if (!jobs) {
    error << "error: " << jobs.error().message << '\n';
    return 1;
  }
  for (const auto& job : *jobs) {
    const auto text = render(job, options);
    if (!text) {
      error << "error: " << title_of(job) << ": " << text.error().message << '\n';
      return 1;
    }
    out << *text;
  }
  return 0;
}

}  // namespace trainyard::cli
