#include "cli/snapshots/command.hpp"

#include <fmt/format.h>

#include <iostream>
#include <string>
#include <utility>

namespace trainyard::cli {
namespace {

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
