#include "tests/builders/action_words.hpp"

#include <nlohmann/json.hpp>
#include <variant>

#include "api/contract.hpp"

namespace trainyard::builders {
namespace {

struct Words {
  std::string operator()(const plan::CheckPod&) const { return "check pod"; }
  std::string operator()(const plan::CreateService&) const { return "create service"; }
  std::string operator()(const plan::CreatePod& action) const {
    const nlohmann::json metadata = action.pod().at("metadata");
    const auto index = metadata.at("labels").find(contract::label_rank);
    if (index != metadata.at("labels").end()) return "create pod " + index->get<std::string>();
    return "create " + metadata.at("name").get<std::string>();
  }
  std::string operator()(const plan::DeletePod& action) const { return "delete " + action.name; }
  std::string operator()(const plan::DeselectPods&) const { return "select no pods"; }
  std::string operator()(const plan::SelectPods& action) const {
    return "select pods of attempt " + std::to_string(action.attempt);
  }
  std::string operator()(const plan::DeleteService&) const { return "delete service"; }
  std::string operator()(const plan::DeleteJob&) const { return "delete job"; }
  std::string operator()(const plan::AddFinalizer&) const { return "add finalizer"; }
  std::string operator()(const plan::RemoveFinalizer&) const { return "remove finalizer"; }
};

}  // namespace

std::vector<std::string> words_of(const std::vector<plan::Action>& actions) {
  std::vector<std::string> words;
  for (const plan::Action& action : actions) words.push_back(std::visit(Words{}, action));
  return words;
}

}  // namespace trainyard::builders
