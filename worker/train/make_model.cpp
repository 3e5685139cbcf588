#include "worker/train/make_model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <utility>
#include <vector>

#include "worker/train/open_datasets.hpp"
#include "worker/train/precision.hpp"
#include "worker/train/program_call.hpp"
#include "worker/train/script_model.hpp"

namespace trainyard {
namespace {

bool is_upper(char c) {
  return std::isupper(static_cast<unsigned char>(c)) != 0;
}

}  // namespace

std::string snake_case(std::string_view type_name) {
  if (const std::size_t scope = type_name.rfind("::"); scope != std::string_view::npos)
    type_name.remove_prefix(scope + 2);
  std::string name;
  for (std::size_t index = 0; index < type_name.size(); ++index) {
    const char c = type_name[index];
    const bool begins_word =
        index > 0 && is_upper(c) && type_name[index - 1] != '_' &&
        (!is_upper(type_name[index - 1]) ||
         (index + 1 < type_name.size() && std::islower(static_cast<unsigned char>(type_name[index + 1])) != 0));
    if (begins_word) name += '_';
    name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return name;
}

namespace train {

Result<std::shared_ptr<Module>> make_model(const Models& models, const api::ModelSpec& spec) {
  const auto found = models.factories().find(spec.name);
  if (found == models.factories().end()) {
    std::vector<std::string_view> known;
    for (const auto& [known_name, factory] : models.factories()) known.push_back(known_name);
    return fail(ErrorKind::invalid,
                fmt::format("training.model.name: no model '{}' here (there is: {}); for your own use "
                            "--worker or an image",
                            spec.name, fmt::join(known, ", ")));
  }
  try {
    const Options options{spec.options.dump()};
    const ProgramCall call{"the constructor of the model ", spec.name};
    auto model = found->second(options);
    if (model == nullptr)
      return fail(ErrorKind::invalid, fmt::format("the program makes no model for the name '{}'", spec.name));
    options.check_all_asked();
    return model;
  } catch (const InvalidJob& error) {
    return fail(ErrorKind::invalid, error.what());
  }
}

OrEnd<MadeModel> make_model_on(torch::Device device, const Models& models, const Job& job,
                               const checkpoint::StartPatience& patience, const Clock& clock) {
  const api::ModelSpec& spec = job.training.model;
  MadeModel made;
  if (spec.kind == api::ModelKind::torchscript) {
    auto script = load_script_model(spec, read_options(job), patience, clock);
    if (!script) return end_rank(script.error().kind == ErrorKind::invalid ? Stage::spec : Stage::data, script.error());
    made = {.module = std::move(script->model), .script_digest = std::move(script->sha256)};
  } else {
    auto module = make_model(models, spec);
    if (!module) return end_rank(Stage::spec, module.error());
    made.module = std::move(*module);
  }
  made.module->to(device);
  convert(*made.module, number_format(job.training));
  return made;
}

}  // namespace train
}  // namespace trainyard
