#include "cli/snapshots/command.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <ostream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "checkpoint/interchange/new_file.hpp"
#include "checkpoint/run/search.hpp"
#include "checkpoint/run/superseded.hpp"
#include "checkpoint/snapshot/history.hpp"
#include "cli/snapshots/files.hpp"
#include "cli/text/output.hpp"
#include "common/exit_codes.hpp"
#include "common/try.hpp"

namespace trainyard::cli {
namespace {

namespace fs = std::filesystem;
using snapshot::Listed;
using snapshot::Shelf;
using snapshot::Snapshot;
using snapshot::Standing;

/// The store of a command's prefix, and the snapshots in it.
struct Opened {
  std::unique_ptr<storage::Store> store;
  Shelf shelf;
};

Result<Opened> open(const SnapshotsOptions& options) {
  auto store = TRY(open_for_reading(options.uri, options.s3, options.is_stopped));
  return snapshot::list_snapshots(*store).map(
      [&](Shelf shelf) { return Opened{.store = std::move(store), .shelf = std::move(shelf)}; });
}

std::string state_text(const Listed& listed, const Shelf& shelf) {
  if (listed.standing == Standing::current) return "current";
  if (listed.standing == Standing::superseded) return "superseded";
  return fmt::format("current up to step {}", checkpoint::last_current_step(listed.id.generation, shelf.claims));
}

std::string listing_text(const Shelf& shelf) {
  std::vector<Row> rows = {{"STEP", "GENERATION", "BYTES", "STATE"}};
  for (const Listed& listed : shelf.snapshots) {
    rows.push_back({std::to_string(listed.id.step), std::to_string(listed.id.generation), human_bytes(listed.bytes),
                    state_text(listed, shelf)});
  }
  return table(rows, {true, true, true, false});
}

nlohmann::json listing_json(const Opened& opened) {
  nlohmann::json list = nlohmann::json::array();
  for (const Listed& listed : opened.shelf.snapshots) {
    list.push_back({{"step", listed.id.step},
                    {"generation", listed.id.generation},
                    {"uri", opened.store->uri_of(checkpoint::snapshot_key(listed.id))},
                    {"bytes", listed.bytes},
                    {"state", state_text(listed, opened.shelf)}});
  }
  return list;
}

std::string steps_beside(const Shelf& shelf, std::int64_t step) {
  std::vector<std::int64_t> steps;
  for (const Listed& listed : shelf.snapshots) steps.push_back(listed.id.step);
  if (steps.empty()) return "there are no snapshots here";
  std::sort(steps.begin(), steps.end());
  const auto after = std::upper_bound(steps.begin(), steps.end(), step);
  if (after == steps.end()) return fmt::format("the last one is of step {}", steps.back());
  if (after == steps.begin()) return fmt::format("the first one is of step {}", steps.front());
  return fmt::format("the nearest are of steps {} and {}", *std::prev(after), *after);
}

/// The snapshot of `step`. If several runs made one: a current one before a superseded one, then the latest.
Result<const Listed*> choose(const Shelf& shelf, std::int64_t step) {
  const auto rank_of = [](const Listed& listed) {
    return std::tuple{-static_cast<int>(listed.standing), listed.id.generation};
  };
  const Listed* best = nullptr;
  for (const Listed& listed : shelf.snapshots) {
    if (listed.id.step == step && (best == nullptr || rank_of(*best) < rank_of(listed))) best = &listed;
  }
  if (best != nullptr) return best;
  return fail(ErrorKind::not_found,
              fmt::format("there is no snapshot of step {}; {}", step, steps_beside(shelf, step)));
}

Result<void> write_files(const Snapshot& snapshot, const std::string& folder) {
  checkpoint::NewFolder target{folder};
  TRY(target.check_free());
  const std::vector<std::string> names = file_names(snapshot.images);
  for (std::size_t i = 0; i < names.size(); ++i) {
    TRY(target.write(names[i], snapshot.images[i].png));
  }
  return target.write("metrics.csv", points_csv(snapshot.points)).and_then([&] { return target.commit(); });
}

std::string absolute(const std::string& folder) {
  std::string path = fs::absolute(folder).lexically_normal().string();
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

/// The end of a command's help: its exit codes and an example.
std::string ending(const std::string& example) {
  return fmt::format("Exit code: 0 done, 1 failed, 2 wrong usage, 130 stopped by Ctrl-C.\n\n  trainyard snapshots {}",
                     example);
}

void add_place(CLI::App& command, SnapshotsOptions& options) {
  command.add_option("URI", options.uri, "A prefix as in checkpoint.uri (file:///folder, s3://bucket/prefix, ...)")
      ->required();
  add_s3(command, options.s3);
}

void declare_ls(CLI::App& app, SnapshotsOptions& options) {
  CLI::App* ls = app.add_subcommand("ls", "List snapshots, the newest last");
  add_place(*ls, options);
  add_output(*ls, options.format);
  ls->footer(std::string{"STATE is current; current up to step N: a later run resumed from step N; superseded: a later "
                         "run resumed\nfrom an earlier step.\n"} +
             ending("ls s3://models/fashion-mnist"));
}

void declare_get(CLI::App& app, SnapshotsOptions& options) {
  CLI::App* get = app.add_subcommand("get", "Write a snapshot's images (PNG) and metrics.csv into a new folder");
  add_place(*get, options);
  expect_step(get->add_option("STEP", options.step, "The snapshot's step"))->required();
  get->add_option("TO", options.target, "The folder, which must not exist yet [snapshot-STEP]")->type_name("DIR");
  get->footer(ending("get s3://models/fashion-mnist 500 step-500"));
}

void declare_history(CLI::App& app, SnapshotsOptions& options) {
  CLI::App* history = app.add_subcommand("history", "Print all values of all metrics, without superseded ones, as CSV");
  add_place(*history, options);
  add_output(*history, options.format, "csv");
  history->footer(
      std::string{"Columns: step, name, over (steps: the steps since the previous value; epoch; validation), "
                  "value (over all\nranks), generation. A damaged snapshot is named on standard error and "
                  "left out; the exit code is then 1.\n"} +
      ending("history s3://models/fashion-mnist > metrics.csv"));
}

}  // namespace

int list_snapshots(const SnapshotsOptions& options, const Streams& streams) {
  const auto opened = open(options);
  if (!opened) return report(streams, opened.error());
  if (options.format != OutputFormat::text) {
    streams.out << document_text(listing_json(*opened), options.format);
  } else if (opened->shelf.snapshots.empty()) {
    streams.err << "note: there are no snapshots under " << printable(opened->store->uri_of("")) << '\n';
  } else {
    streams.out << listing_text(opened->shelf);
  }
  return 0;
}

int get_snapshot(const SnapshotsOptions& options, const Streams& streams) {
  const auto opened = open(options);
  if (!opened) return report(streams, opened.error());
  const auto choice = choose(opened->shelf, options.step);
  if (!choice) return report(streams, fail(options.uri, choice.error()).value());
  if ((*choice)->standing != Standing::current) {
    streams.err << fmt::format(
        "note: this snapshot is of generation {} and is {}: a later run resumed from an earlier step\n",
        (*choice)->id.generation, state_text(**choice, opened->shelf));
  }
  const auto snapshot = snapshot::read_snapshot(*opened->store, (*choice)->id);
  if (!snapshot) return report(streams, snapshot.error());
  const std::string folder = options.target.empty() ? fmt::format("snapshot-{}", options.step) : options.target;
  if (auto written = write_files(*snapshot, absolute(folder)); !written) return report(streams, written.error());
  streams.out << fmt::format("step {}: metrics.csv ({} values) and {} images in {}\n", options.step,
                             snapshot->points.size(), snapshot->images.size(), folder);
  return 0;
}

int print_history(const SnapshotsOptions& options, const Streams& streams) {
  const auto opened = open(options);
  if (!opened) return report(streams, opened.error());
  snapshot::History history{opened->shelf.claims};
  int exit_code = 0;
  for (const Listed& listed : opened->shelf.snapshots) {
    if (listed.standing == Standing::superseded) continue;
    const auto snapshot = snapshot::read_snapshot(*opened->store, listed.id);
    if (snapshot) {
      history.add(*snapshot);
      if (snapshot->dropped_points > 0)
        streams.err << fmt::format(
            "note: {} values before step {} are missing: too many were waiting while the store could not be reached\n",
            snapshot->dropped_points, listed.id.step);
      continue;
    }
    const ErrorKind kind = snapshot.error().kind;
    if (!checkpoint::is_damage(kind) && kind != ErrorKind::invalid) return report(streams, snapshot.error());
    streams.err << "note: left out: " << printable(snapshot.error().message) << '\n';
    exit_code = exit_failure;
  }
  if (options.format != OutputFormat::text) {
    streams.out << document_text(history_json(history.points()), options.format);
  } else {
    streams.out << history_csv(history.points());
  }
  return exit_code;
}

CLI::App* SnapshotsCommand::declare(CLI::App& app) {
  command_ =
      app.add_subcommand("snapshots", "List, copy and print a training's snapshots (metrics and images) under a URI");
  command_->require_subcommand(1);
  declare_ls(*command_, options_);
  declare_get(*command_, options_);
  declare_history(*command_, options_);
  command_->footer(
      "A job makes snapshots if its spec has training: {snapshots: {every: {steps: 500}}}\n\n"
      "  trainyard snapshots history s3://models/fashion-mnist > metrics.csv\n"
      "  trainyard snapshots get s3://models/fashion-mnist 500 step-500");
  return command_;
}

bool SnapshotsCommand::makes_files() const {
  return command_->get_subcommands().front()->get_name() == "get";
}

int SnapshotsCommand::run(std::function<bool()> is_stopped) {
  options_.is_stopped = std::move(is_stopped);
  const Streams streams{.out = std::cout, .err = std::cerr};
  const std::string name = command_->get_subcommands().front()->get_name();
  if (name == "ls") return list_snapshots(options_, streams);
  if (name == "get") return get_snapshot(options_, streams);
  return print_history(options_, streams);
}

}  // namespace trainyard::cli
