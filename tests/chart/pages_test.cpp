#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "api/contract.hpp"
#include "api/yaml/yaml.hpp"
#include "operator/manager/metrics.hpp"
#include "operator/manifest/objects.hpp"
#include "operator/manifest/security.hpp"
#include "tests/chart/tools.hpp"
#include "tests/docs/page.hpp"
#include "tests/skips.hpp"
#include "worker/launcher/status_document.hpp"

namespace trainyard::chart {
namespace {

using docs::quoted;
using nlohmann::json;
using testing::HasSubstr;

docs::Page page(const std::string& name) {
  return docs::Page{"docs/" + name};
}

json parse_one(const std::string& yaml) {
  auto documents = api::parse_yaml(yaml);
  if (!documents) throw std::runtime_error(documents.error().message);
  EXPECT_EQ(documents->size(), 1U) << yaml;
  return documents->at(0);
}

/// The block of YAML in `page` whose object is of this kind.
json object_in(const docs::Page& page, std::string_view kind) {
  for (const std::string& block : page.blocks("yaml")) {
    if (json object = parse_one(block); object.value("kind", "") == kind) return object;
  }
  ADD_FAILURE() << "the page has no block of kind " << kind;
  return json::object();
}

/// All words of `text` that begin as our series do.
std::set<std::string> series_in(const std::string& text) {
  static const std::regex series{"\\btrainyard_[a-z_]+"};
  std::set<std::string> found;
  for (std::sregex_iterator word{text.begin(), text.end(), series}; word != std::sregex_iterator{}; ++word) {
    found.insert(word->str());
  }
  return found;
}

/// "gauge namespace,job" by the name of each series: what /metrics says, with every series in it.
std::map<std::string, std::string> series_served(const std::string& served) {
  static const std::regex type{"# TYPE (\\S+) (\\S+)\n"};
  static const std::regex label{"[{,](\\w+)=\""};
  std::map<std::string, std::string> found;
  for (std::sregex_iterator line{served.begin(), served.end(), type}; line != std::sregex_iterator{}; ++line) {
    const std::string name = (*line)[1];
    const std::size_t sample = served.find("\n" + name) + 1;
    const std::string text = served.substr(sample, served.find('\n', sample) - sample);
    std::vector<std::string> labels;
    for (std::sregex_iterator one{text.begin(), text.end(), label}; one != std::sregex_iterator{}; ++one) {
      labels.push_back((*one)[1]);
    }
    found[name] = fmt::format("{} {}", (*line)[2].str(), fmt::join(labels, ","));
  }
  return found;
}

std::map<std::string, std::string> served_by_the_operator() {
  return series_served(manager::metrics_page({.jobs_by_phase = {{api::Phase::running, 1}}}));
}

std::map<std::string, std::string> served_by_the_worker() {
  rank::RankProgress progress;
  progress.epoch = progress.epochs = progress.step = progress.total_steps = 1;
  progress.loss = progress.samples_per_second = progress.eta_seconds = progress.accuracy = 1.0;
  progress.step_milliseconds = {{"data", 1.0}};
  progress.checkpoint = rank::SavedCheckpoint{};
  return series_served(launcher::make_metrics_document({}, {.progress = progress}));
}

std::set<std::string> names_of(const std::map<std::string, std::string>& series) {
  std::set<std::string> names;
  for (const auto& [name, form] : series) names.insert(name);
  return names;
}

TEST(MetricsPage, ListsTheSeriesThatOperatorAndWorkerServe) {
  std::map<std::string, std::string> served = served_by_the_operator();
  served.merge(served_by_the_worker());
  std::map<std::string, std::string> listed;
  for (const auto& row : page("metrics.md").table("| series |")) {
    ASSERT_EQ(row.size(), 4U) << row.front();
    listed[quoted(row[0]).at(0)] = fmt::format("{} {}", row[1], fmt::join(quoted(row[2]), ","));
    EXPECT_NE(row[3], "") << row[0] << " has no meaning";
  }
  EXPECT_EQ(listed, served);
}

// A series that is served in some states only could be missing above.
TEST(MetricsPage, KnowsEverySeriesThatTheCodeNames) {
  EXPECT_EQ(series_in(read_file(source_folder() / "operator/manager/metrics.cpp")), names_of(served_by_the_operator()));
  EXPECT_EQ(series_in(read_file(source_folder() / "worker/launcher/status_document.cpp")),
            names_of(served_by_the_worker()));
}

TEST(MetricsPage, AlertsByExpressionsOverSeriesThatThereAre) {
  std::set<std::string> known = names_of(served_by_the_operator());
  known.merge(names_of(served_by_the_worker()));
  const json rules = object_in(page("metrics.md"), "PrometheusRule");
  EXPECT_EQ(rules.at("apiVersion"), "monitoring.coreos.com/v1");
  std::set<std::string> names;
  for (const json& group : rules.at("spec").at("groups")) {
    for (const json& rule : group.at("rules")) {
      const std::string name = rule.at("alert");
      EXPECT_TRUE(names.insert(name).second) << name << " is there twice";
      const auto used = series_in(rule.at("expr").get<std::string>());
      EXPECT_FALSE(used.empty()) << name;
      EXPECT_TRUE(std::ranges::includes(known, used)) << name << ": " << rule.at("expr");
      EXPECT_TRUE(rule.at("labels").contains("severity")) << name;
      EXPECT_NE(rule.at("annotations").value("summary", ""), "") << name;
    }
  }
  EXPECT_GE(names.size(), 5U);
}

TEST(MetricsPage, FindsRanksByTheServiceOfEachJob) {
  const json monitor = object_in(page("metrics.md"), "ServiceMonitor");
  api::TrainingJob job;
  job.metadata.name = "a";
  job.metadata.uid = "1a2b3c";
  const json service = manifest::build_service(job);
  const json& chosen = monitor.at("spec").at("selector").at("matchExpressions").at(0);
  EXPECT_EQ(chosen.at("operator"), "Exists");
  EXPECT_TRUE(service.at("metadata").at("labels").contains(chosen.at("key").get<std::string>())) << service;
  const json& endpoint = monitor.at("spec").at("endpoints").at(0);
  const json& ports = service.at("spec").at("ports");
  EXPECT_TRUE(std::ranges::any_of(ports, [&](const json& port) {
    return port.at("name") == endpoint.at("port") && port.at("port") == contract::default_status_port;
  })) << ports;
  // Without honorLabels Prometheus would rename the labels "namespace" and "job", which the alerts use.
  EXPECT_EQ(endpoint.at("honorLabels"), true);
}

/// A rule in one line, whoever wrote it down.
std::string rule_line(const std::string& role, const std::string& group, const std::vector<std::string>& resources,
                      const std::vector<std::string>& names, const std::vector<std::string>& verbs) {
  return fmt::format("{}: {} {} {} [{}]", role, group, fmt::join(resources, ","), fmt::join(names, ","),
                     fmt::join(verbs, ","));
}

TEST(SecurityPage, ListsTheRulesOfTheChartEachWithItsReason) {
  const std::string helm = tool("helm");
  if (helm.empty()) return tests::cannot_run("helm is missing; scripts/setup cluster installs it");
  const Outcome rendered = run(helm + " template trainyard charts/trainyard --kube-version 1.36.0");
  ASSERT_EQ(rendered.exit_code, 0) << rendered.output;
  const auto objects = api::parse_yaml(rendered.output);
  ASSERT_TRUE(objects) << objects.error().message;
  std::multiset<std::string> in_chart;
  for (const json& object : *objects) {
    for (const json& rule : object.value("rules", json::array())) {
      ASSERT_EQ(rule.at("apiGroups").size(), 1U);
      const std::string group = rule.at("apiGroups").at(0);
      in_chart.insert(rule_line(object.at("metadata").at("name"), group.empty() ? "core" : group, rule.at("resources"),
                                rule.value("resourceNames", std::vector<std::string>{}), rule.at("verbs")));
    }
  }
  std::multiset<std::string> on_page;
  for (const auto& row : page("security.md").table("| role |")) {
    ASSERT_EQ(row.size(), 6U) << row.front();
    const auto group = quoted(row[1]);
    on_page.insert(rule_line(quoted(row[0]).at(0), group.empty() ? row[1] : group.at(0), quoted(row[2]), quoted(row[3]),
                             quoted(row[4])));
    EXPECT_NE(row[5], "") << "a rule of " << row[0] << " has no reason";
  }
  EXPECT_GE(on_page.size(), 10U);
  EXPECT_EQ(on_page, in_chart);
}

TEST(SecurityPage, ListsThePortsOfOperatorAndRanks) {
  std::vector<std::string> listed;
  for (const auto& row : page("security.md").table("| port |")) listed.push_back(row.front());
  EXPECT_EQ(listed,
            (std::vector<std::string>{
                "8080", std::to_string(contract::default_master_port), std::to_string(contract::default_store_port),
                std::to_string(contract::default_peer_port), std::to_string(contract::default_status_port)}));
  // charts/trainyard chooses the operator's port.
  EXPECT_THAT(read_file(source_folder() / "charts/trainyard/templates/deployment.yaml"),
              HasSubstr("--listen=0.0.0.0:8080"));
}

TEST(SecurityPage, ShowsWhatAPodGetsWhoseTemplateSaysNothing) {
  json pod = json::parse(R"({"containers": [{}]})");
  manifest::add_security_defaults(pod, manifest::UserIds::fixed);
  const auto blocks = page("security.md").blocks("yaml");
  const auto shown = std::ranges::find_if(blocks, [](const std::string& b) { return b.starts_with("automount"); });
  ASSERT_NE(shown, blocks.end());
  EXPECT_EQ(parse_one(*shown), pod);
}

TEST(SecurityPage, HasAPolicyForJobsThatLetsTheOperatorIn) {
  const json spec = object_in(page("security.md"), "NetworkPolicy").at("spec");
  const json of_jobs{{"matchExpressions", {{{"key", contract::label_job}, {"operator", "Exists"}}}}};
  EXPECT_EQ(spec.at("podSelector"), of_jobs);
  EXPECT_EQ(spec.at("ingress").at(0), (json{{"from", {{{"podSelector", of_jobs}}}}}));
  EXPECT_EQ(spec.at("ingress").at(1),
            (json{{"from",
                   {{{"namespaceSelector", {{"matchLabels", {{"kubernetes.io/metadata.name", "trainyard-system"}}}}},
                     {"podSelector", {{"matchLabels", {{"app.kubernetes.io/name", "trainyard-operator"}}}}}}}},
                  {"ports", {{{"protocol", "TCP"}, {"port", contract::default_status_port}}}}}));
}

TEST(InstallPage, NamesTheVersionsOfKubernetesThatHelmTakesAndTheTestsRun) {
  std::smatch least;
  const std::string chart = read_file(source_folder() / "charts/trainyard/Chart.yaml");
  ASSERT_TRUE(std::regex_search(chart, least, std::regex{"kubeVersion: \">=(\\d+\\.\\d+)\\.0-0\""})) << chart;
  std::smatch tested;
  const std::string modules = read_file(source_folder() / "tools/cluster/programs/go.mod");
  ASSERT_TRUE(std::regex_search(modules, tested, std::regex{"k8s.io/kubernetes v(\\d+\\.\\d+)\\."}));
  const std::string text = read_file(source_folder() / "docs/install.md");
  EXPECT_THAT(text, HasSubstr(fmt::format("**Kubernetes** {} or newer", least[1].str())));
  EXPECT_THAT(text, HasSubstr(fmt::format("run on Kubernetes {} only", tested[1].str())));
}

}  // namespace
}  // namespace trainyard::chart
