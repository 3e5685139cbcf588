#include "cli/checkpoints/command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <iostream>
#include <string>
#include <utility>

namespace trainyard::cli {
namespace {

/// The end of a command's help: its exit codes and an example.
std::string ending(const std::string& example) {
  return fmt::format("Exit code: 0 done, 1 failed, 2 wrong usage, 130 stopped by Ctrl-C.\n\n  trainyard checkpoints {}",
                     example);
}

void add_place(CLI::App& command, CheckpointsOptions& options) {
  command
      .add_option(
          "URI", options.uri,
          "A prefix as in checkpoint.uri (file:///folder, s3://bucket/prefix, ...), or the URI of one checkpoint: "
          ".../step-N/g-G")
      ->required();
  add_s3(command, options.s3);
}

constexpr const char* choice_of_restore = "the checkpoint that a restore would take";

/// `fallback` says which checkpoint is taken without the option.
void add_step(CLI::App& command, CheckpointsOptions& options, const std::string& fallback) {
  expect_step(command.add_option("--step", options.step, fmt::format("The checkpoint's step [{}]", fallback)));
}

void declare_ls(CLI::App& app, CheckpointsOptions& options) {
  CLI::App* ls = app.add_subcommand("ls", "List checkpoints, the newest last");
  add_place(*ls, options);
  add_output(*ls, options.format);
  ls->footer(std::string{"STATE is complete; final: complete, and nothing is left to train; superseded: a later run "
                         "resumed from\nan earlier step; unfinished: it is being written, or its run died; damaged: a "
                         "restore skips it.\n"} +
             ending("ls s3://models/fashion-mnist"));
}

void declare_show(CLI::App& app, CheckpointsOptions& options) {
  CLI::App* show = app.add_subcommand("show", "Show what a checkpoint holds: job, values, every tensor");
  add_place(*show, options);
  add_step(*show, options, choice_of_restore);
  add_output(*show, options.format, "text");
  show->footer(ending("show s3://models/fashion-mnist --step 600"));
}

void declare_verify(CLI::App& app, CheckpointsOptions& options) {
  CLI::App* verify = app.add_subcommand("verify", "Read every byte of a checkpoint and report damage");
  add_place(*verify, options);
  add_step(*verify, options, "the newest checkpoint that is not superseded");
  verify->add_flag("--all", options.is_all, "Verify all checkpoints that have a manifest")->excludes("--step");
  add_output(*verify, options.format, "text");
  verify->footer(
      "Exit code: 0 whole, 1 damaged or not readable, 2 wrong usage.\n\n"
      "  trainyard checkpoints verify s3://models/fashion-mnist --all");
}

void declare_get(CLI::App& app, CheckpointsOptions& options) {
  CLI::App* get =
      app.add_subcommand("get", "Copy a checkpoint into a new folder on this machine, from which a run can resume");
  add_place(*get, options);
  get->add_option("TO", options.target, "The folder, which must not exist yet")->type_name("DIR")->required();
  add_step(*get, options, choice_of_restore);
  get->footer(ending("get s3://models/fashion-mnist fashion-mnist"));
}

void declare_export(CLI::App& app, CheckpointsOptions& options) {
  CLI::App* to_file = app.add_subcommand("export", "Write the model's tensors to a file that Python reads");
  add_place(*to_file, options);
  to_file->add_option("FILE", options.target, "FILE.safetensors or FILE.pt")->type_name("PATH")->required();
  add_step(*to_file, options, choice_of_restore);
  to_file->add_option("--only", options.only, "Export only tensors whose names in the file begin with PREFIX")
      ->type_name("PREFIX");
  to_file->add_flag(
      "--all", options.is_all,
      "Also export the state of optimizer and random generators; all names are then full, as in model.fc.weight");
  to_file->add_flag("--force", options.is_forced, "Replace FILE if it exists");
  to_file->footer(std::string{"  model.load_state_dict(torch.load(\"FILE.pt\", weights_only=True))\n"
                              "  model.load_state_dict(safetensors.torch.load_file(\"FILE.safetensors\"))\n\n"} +
                  ending("export s3://models/fashion-mnist fashion.safetensors"));
}

void declare_import(CLI::App& app, CheckpointsOptions& options) {
  CLI::App* from_file =
      app.add_subcommand("import", "Make a checkpoint from a file of weights, as the start of a training");
  from_file
      ->add_option("FILE", options.source,
                   "FILE.safetensors, or FILE.pt as torch.save(model.state_dict(), FILE) writes it")
      ->type_name("PATH")
      ->required();
  from_file
      ->add_option("URI", options.uri, "A prefix for this checkpoint alone: file:///folder, s3://bucket/prefix, ...")
      ->required();
  add_s3(*from_file, options.s3);
  from_file->footer(
      std::string{"A job begins with these weights if its spec has training.model.weights: URI\n"
                  "Nothing in a .pt file is executed. A file that holds anything but a dict of tensors is refused, "
                  "and\nthe error names what it holds.\n\n"} +
      ending("import resnet50.pt s3://models/resnet50"));
}

void declare_rm(CLI::App& app, CheckpointsOptions& options) {
  CLI::App* rm = app.add_subcommand("rm", "Remove a checkpoint");
  add_place(*rm, options);
  expect_step(rm->add_option("--step", options.step, "The checkpoint's step"));
  rm->add_flag("-y,--yes", options.is_confirmed, "Remove without asking");
  rm->add_flag("--force", options.is_forced,
               "Also remove the newest checkpoint that is not superseded, or one that a run may be writing");
  rm->footer(ending("rm s3://models/fashion-mnist --step 600"));
}

std::optional<bool> ask_on_terminal(const std::string& question) {
  if (::isatty(STDIN_FILENO) == 0) return std::nullopt;
  std::cerr << question << " [y/N] " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

}  // namespace

CLI::App* CheckpointsCommand::declare(CLI::App& app) {
  command_ =
      app.add_subcommand("checkpoints", "List, verify, copy, export, import and remove the checkpoints under a URI");
  command_->require_subcommand(1);
  declare_ls(*command_, options_);
  declare_show(*command_, options_);
  declare_verify(*command_, options_);
  declare_get(*command_, options_);
  declare_export(*command_, options_);
  declare_import(*command_, options_);
  declare_rm(*command_, options_);
  command_->footer(
      "S3 credentials are found as by the AWS SDKs: variables such as $AWS_ACCESS_KEY_ID, profiles, roles.\n\n"
      "  trainyard checkpoints ls s3://models/fashion-mnist\n"
      "  trainyard checkpoints export s3://models/fashion-mnist fashion.safetensors\n"
      "  trainyard checkpoints import resnet50.pt s3://models/resnet50");
  return command_;
}

bool CheckpointsCommand::makes_files() const {
  const std::string name = command_->get_subcommands().front()->get_name();
  return name == "get" || name == "export";
}

int CheckpointsCommand::run(std::function<bool()> is_stopped) {
  options_.is_stopped = std::move(is_stopped);
  const Streams streams{.out = std::cout, .err = std::cerr};
  const std::string name = command_->get_subcommands().front()->get_name();
  if (name == "ls") return list_checkpoints(options_, streams);
  if (name == "show") return show_checkpoint(options_, streams);
  if (name == "verify") return verify_checkpoints(options_, streams);
  if (name == "get") return get_checkpoint(options_, streams);
  if (name == "export") return export_checkpoint(options_, streams);
  if (name == "import") return import_checkpoint(options_, streams);
  return remove_checkpoint(options_, streams, ask_on_terminal);
}

}  // namespace trainyard::cli
