#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <optional>

#include "cli/checkpoint_request.hpp"
#include "cli/checkpoints/command.hpp"
#include "cli/completion.hpp"
#include "cli/failure.hpp"
#include "cli/local_run.hpp"
#include "cli/logs.hpp"
#include "cli/ps.hpp"
#include "cli/render.hpp"
#include "cli/run.hpp"
#include "cli/run_command.hpp"
#include "cli/run_folder.hpp"
#include "cli/snapshots/command.hpp"
#include "cli/status.hpp"
#include "cli/stop_signals.hpp"
#include "cli/text/output_format.hpp"
#include "cli/usage_errors.hpp"
#include "cli/validate.hpp"
#include "common/duration.hpp"
#include "common/exit_codes.hpp"
#include "common/logging.hpp"

namespace trainyard::cli {
namespace {

constexpr const char* of_a_file = "With FILE";
constexpr const char* of_a_command = "With -- COMMAND";

struct Arguments {
  bool is_verbose = false;
  RunOptions run;
  RunCommandOptions command;
  std::vector<std::string> validated_files;
  RenderOptions render;
  LogsOptions logs;
  PsOptions ps;
  std::string shell;
  StatusOptions status;
  CheckpointRequestOptions checkpoint;
};

void add_cluster_options(CLI::App& command, ClusterChoice& cluster) {
  command.add_option("-n,--namespace", cluster.name_space, "The job is in this namespace of a cluster");
  command
      .add_option("--kubeconfig", cluster.kubeconfig,
                  "How to reach the cluster [as kubectl: $KUBECONFIG, ~/.kube/config]")
      ->type_name("FILE");
  command.add_option("--context", cluster.context, "Which context of the kubeconfig [its current one]");
}

CLI::App* declare_run(CLI::App& app, Arguments& arguments) {
  CLI::App* run = app.add_subcommand("run", "Run TrainingJobs on this machine, without Kubernetes");
  run->add_option("FILE", arguments.run.file,
                  "YAML with one TrainingJob or several, which run one after the other; - is standard input")
      ->type_name("YAML");
  run->add_option("--volume", arguments.run.volumes,
                  "A folder that stands for a PersistentVolumeClaim; may be repeated")
      ->allow_extra_args(false)
      ->type_name("CLAIM=FOLDER")
      ->group(of_a_file);
  run->add_option("--secret", arguments.run.secrets,
                  "A file of KEY=VALUE lines that stands for a Secret; may be repeated")
      ->allow_extra_args(false)
      ->type_name("NAME=FILE")
      ->group(of_a_file);
  run->add_option("--dir", arguments.run.folder, "Where checkpoints and logs are kept [trainyard-runs/JOB]")
      ->type_name("DIR")
      ->group(of_a_file);
  run->add_option("--worker", arguments.run.worker, "The training program [trainyard-worker beside this program]")
      ->type_name("PROGRAM")
      ->group(of_a_file);
  auto* nproc = run->add_option("--nproc,--nproc-per-node", arguments.command.processes,
                                "Start this many ranks of COMMAND, as torchrun does")
                    ->check(CLI::Range(1, 1024))
                    ->type_name("N")
                    ->group(of_a_command);
  run->add_option("-t,--tee", arguments.command.tee,
                  "Output to files and here, each line after its rank: 1 stdout, 2 stderr, 3 both, or 0:1,1:3 by rank")
      ->needs(nproc)
      ->type_name("STREAMS")
      ->group(of_a_command);
  run->add_option("-r,--redirects", arguments.command.redirects, "Output to files alone, in the same words")
      ->needs(nproc)
      ->type_name("STREAMS")
      ->group(of_a_command);
  run->add_option("--log-dir", arguments.command.log_folder,
                  "Where logs are kept [trainyard-runs/SCRIPT, or SCRIPT-2 and so on while another run uses it]")
      ->needs(nproc)
      ->type_name("DIR")
      ->group(of_a_command);
  run->add_option("--max-restarts", arguments.command.restarts_max,
                  "How often the group is started again after a failure [0]")
      ->needs(nproc)
      ->check(CLI::Range(0, 1000))
      ->type_name("N")
      ->group(of_a_command);
  run->footer(
      "Ctrl-C lets the ranks save and end; a second one kills them. The same command then goes on from the last "
      "checkpoint.\n"
      "Exit code: 0 succeeded, 1 failed, 2 wrong usage, 130 stopped by Ctrl-C.\n\n"
      "  trainyard run examples/smoke.yaml\n"
      "  trainyard run --nproc 3 -t 3 --log-dir logs -- python3 train.py");
  return run;
}

CLI::App* declare_validate(CLI::App& app, Arguments& arguments) {
  CLI::App* validate =
      app.add_subcommand("validate", "Say what the API server, or the operator, would refuse in TrainingJobs");
  validate->add_option("FILE", arguments.validated_files, "YAML files; - is standard input")
      ->type_name("YAML")
      ->required();
  validate->footer(
      "Stricter than the API server in two things: a key that is given twice is refused, and so is a mistyped field "
      "of\n"
      "spec.template, which the server refuses only with the pods.\n"
      "Exit code: 0 all are valid, 1 some are not, or there is none.\n\n"
      "  trainyard validate examples/*.yaml");
  return validate;
}

CLI::App* declare_render(CLI::App& app, Arguments& arguments) {
  CLI::App* render =
      app.add_subcommand("render", "Print the pods and the service that the operator would make, as YAML");
  render->add_option("FILE", arguments.render.file, "YAML with TrainingJobs; - is standard input")
      ->type_name("YAML")
      ->required();
  render->add_option("-n,--namespace", arguments.render.name_space, "Of jobs that name none")->capture_default_str();
  render->add_option("--worker-image", arguments.render.worker_image, "Where a job names no image")
      ->capture_default_str();
  render->footer(
      "Exit code: 0 printed, 1 a job is not valid, 2 wrong usage.\n\n"
      "  trainyard render examples/smoke.yaml");
  return render;
}

CLI::App* declare_logs(CLI::App& app, Arguments& arguments) {
  LogsOptions& options = arguments.logs;
  CLI::App* logs = app.add_subcommand("logs", "Print what a rank of a job wrote, here or in a cluster");
  logs->add_option("JOB", options.job, "The job's name")->type_name("NAME")->required();
  logs->add_option("--rank", options.rank, "Which rank (pod)")->check(CLI::Range(0, 1'000'000))->capture_default_str();
  logs->add_option("--attempt", options.attempt, "Which attempt [the newest]");
  logs->add_flag("-f,--follow", options.is_following,
                 "Go on until the job ends, or the attempt that is named; wait for what is not there yet");
  logs->add_option("--dir", options.folder, "The folder of a run on this machine [trainyard-runs/JOB]")
      ->type_name("DIR");
  add_cluster_options(*logs, options.cluster);
  logs->footer(
      "Without -n, --kubeconfig or --context a run in this folder comes first.\n\n"
      "  trainyard logs fashion-mnist --rank 1 -f\n"
      "  trainyard logs fashion-mnist -n research --attempt 1");
  return logs;
}

CLI::App* declare_completion(CLI::App& app, Arguments& arguments) {
  CLI::App* completion =
      app.add_subcommand("completion", "Print the script by which a shell completes commands of trainyard");
  completion->add_option("SHELL", arguments.shell, "Which shell")
      ->check(CLI::IsMember({"bash", "zsh"}))
      ->type_name("")
      ->required();
  completion->footer(
      "The script asks this program what there is: commands, options, choices, runs, job files. It needs no change "
      "when "
      "the\nprogram is another. With -- WORDS, which the script adds, the answer for these words is printed.\n\n"
      "  source <(trainyard completion bash)       in ~/.bashrc\n"
      "  source <(trainyard completion zsh)        in ~/.zshrc, behind: autoload -U compinit && compinit");
  return completion;
}

/// The shell's script; with `words`, what may stand at the end of these.
int print_completion(const CLI::App& app, const std::string& shell, const std::vector<std::string>& words) {
  if (words.empty()) {
    std::cout << completion_script(shell);
    return 0;
  }
  std::vector<Completion::Word> runs;
  for (const auto& folder : run_folders_in(runs_folder())) runs.push_back({folder.filename().string(), ""});
  std::cout << completion_lines(complete(app, words, runs));
  return 0;
}

CLI::App* declare_ps(CLI::App& app, Arguments& arguments) {
  CLI::App* ps = app.add_subcommand("ps", "List the runs on this machine, one for each job");
  ps->add_option("--dir", arguments.ps.folder,
                 "The folder that the runs' folders are in, or one run's [trainyard-runs]")
      ->type_name("DIR");
  add_output(*ps, arguments.ps.format);
  ps->footer(
      "PHASE: as a TrainingJob's; Interrupted: the run's process is gone, and told no end; Ended: a run of which "
      "nothing "
      "more\nis known. AGE: since the run began. The run that began last comes last. Jobs of a cluster: kubectl get "
      "tj\n"
      "Exit code: 0 listed, 1 what a run wrote cannot be read, 2 wrong usage.\n\n"
      "  trainyard ps\n"
      "  trainyard ps -o json");
  return ps;
}

CLI::App* declare_status(CLI::App& app, Arguments& arguments) {
  StatusOptions& options = arguments.status;
  CLI::App* status =
      app.add_subcommand("status", "Say how far a job is and how its attempts ended, here or in a cluster");
  status->add_option("JOB", options.job, "The job's name")->type_name("NAME")->required();
  status->add_option("--dir", options.folder, "The folder of a run on this machine [trainyard-runs/JOB]")
      ->type_name("DIR");
  add_output(*status, options.format, "text");
  add_cluster_options(*status, options.cluster);
  status->footer(
      "Without -n, --kubeconfig or --context a run in this folder comes first.\n"
      "Exit code: 0 shown, whatever became of the job; 1 there is no such job, or it cannot be read; 2 wrong usage.\n\n"
      "  trainyard status fashion-mnist\n"
      "  trainyard status fashion-mnist -n research -o yaml");
  return status;
}

CLI::App* declare_checkpoint(CLI::App& app, Arguments& arguments) {
  CheckpointRequestOptions& options = arguments.checkpoint;
  CLI::App* checkpoint =
      app.add_subcommand("checkpoint", "Ask a job that trains for a checkpoint now, here or in a cluster");
  checkpoint->add_option("JOB", options.job, "The job's name")->type_name("NAME")->required();
  checkpoint
      ->add_option_function<std::string>(
          "--timeout",
          [&options](const std::string& text) {
            const auto timeout = parse_duration(text);
            if (!timeout) throw CLI::ValidationError("--timeout", timeout.error().message);
            options.timeout = *timeout;
          },
          "How long the answer is waited for, such as 90s [5m]")
      ->type_name("DURATION");
  checkpoint->add_flag("--no-wait", options.is_sent_only, "Only send the request; it stands in the job's status");
  checkpoint->add_option("--dir", options.folder, "The folder of a run on this machine [trainyard-runs/JOB]")
      ->type_name("DIR");
  add_cluster_options(*checkpoint, options.cluster);
  checkpoint->footer(
      "Training goes on while it is written. Without -n, --kubeconfig or --context a run in progress in this folder "
      "comes first.\nExit code: 0 saved (or sent), 1 no checkpoint was made, 2 wrong usage.\n\n"
      "  trainyard checkpoint fashion-mnist --timeout 10m");
  return checkpoint;
}

int usage_error(const std::string& sentence) {
  std::cerr << "error: " << sentence << "\nTry: trainyard run --help\n";
  return exit_usage;
}

/// The first option of `group` that is given; empty: none.
std::string given_option(const CLI::App& app, const std::string& group) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group() == group && option->count() > 0) return option->get_name();
  }
  return "";
}

/// torchrun takes the program itself; here it stands behind "--".
std::string command_hint(const Arguments& arguments, const std::vector<std::string>& rest) {
  const bool is_python = arguments.run.file.ends_with(".py");
  std::string command = (is_python ? "python3 " : "") + arguments.run.file;
  for (const auto& word : rest) command += " " + word;
  return "the command of the ranks stands behind --: trainyard run --nproc " +
         std::to_string(arguments.command.processes) + " -- " + command;
}

int print_error(const std::string& text) {
  std::cerr << text;
  return exit_usage;
}

int run(const CLI::App& app, const Arguments& arguments) {
  const std::string& file = arguments.run.file;
  const bool is_program = file.ends_with(".py") || file.ends_with(".sh");
  if (arguments.command.command.empty()) {
    if (file.empty()) return usage_error("run needs a FILE, or -- and a command");
    const std::string stray = given_option(app, of_a_command);
    if (is_program || (!stray.empty() && !file.ends_with(".yaml") && !file.ends_with(".yml") && file != "-"))
      return usage_error(command_hint(arguments, {}));
    if (!stray.empty())
      return usage_error(stray + " is for a command behind --; spec.replicas says how many ranks a TrainingJob has");
    return run_file(arguments.run);
  }
  if (!file.empty()) return usage_error("run takes a FILE or -- COMMAND, not both");
  if (const std::string stray = given_option(app, of_a_file); !stray.empty()) {
    return usage_error(stray + " is for a FILE with TrainingJobs" +
                       (stray == "--dir" ? "; where a command's logs go is said by --log-dir" : ", not for a command"));
  }
  return run_command(arguments.command);
}

int main(int argc, char** argv) {
  Arguments arguments;
  // What stands behind "--" is the command's, whatever it looks like.
  const auto separator = std::find(argv, argv + argc, std::string_view{"--"});
  if (separator != argv + argc) arguments.command.command.assign(separator + 1, argv + argc);

  CheckpointsCommand checkpoints;
  SnapshotsCommand snapshots;
  CLI::App app{"Distributed training on Kubernetes, and on this machine by the same YAML"};
  app.name("trainyard");
  app.set_version_flag("--version", TRAINYARD_VERSION);
  app.add_flag("-v,--verbose", arguments.is_verbose, "Log every decision");
  app.require_subcommand(1);
  app.fallthrough();
  CLI::App* run_app = declare_run(app, arguments);
  CLI::App* validate_app = declare_validate(app, arguments);
  CLI::App* render_app = declare_render(app, arguments);
  CLI::App* logs_app = declare_logs(app, arguments);
  const CLI::App* ps_app = declare_ps(app, arguments);
  const CLI::App* status_app = declare_status(app, arguments);
  CLI::App* checkpoint_app = declare_checkpoint(app, arguments);
  const CLI::App* checkpoints_app = checkpoints.declare(app);
  const CLI::App* snapshots_app = snapshots.declare(app);
  const CLI::App* completion_app = declare_completion(app, arguments);
  try {
    app.parse(static_cast<int>(separator - argv), argv);
  } catch (const CLI::ExtrasError&) {
    if (run_app->parsed() && arguments.command.command.empty() && !given_option(*run_app, of_a_command).empty())
      return usage_error(command_hint(arguments, app.remaining(true)));
    return print_error(unknown_argument(app.remaining(true).front(), innermost_command(app)));
  } catch (const CLI::ParseError& error) {
    // Help and version are "errors" of exit code 0.
    if (error.get_exit_code() == 0) return app.exit(error);
    for (const CLI::App* group : {static_cast<const CLI::App*>(&app), checkpoints_app, snapshots_app}) {
      const bool is_meant = group == &app || group->parsed();
      if (!is_meant || !group->get_subcommands().empty()) continue;
      const auto rest = app.remaining(true);
      const bool is_option = !rest.empty() && rest.front().starts_with('-');
      if (is_option) return print_error(unknown_argument(rest.front(), *group));
      return print_error(rest.empty() ? missing_command(*group) : unknown_command(rest.front(), *group));
    }
    app.exit(error);
    return exit_usage;
  }
  logging::set_up(logging::Format::text, arguments.is_verbose ? logging::Level::debug : logging::Level::error);
  if (run_app->parsed()) {
    if (separator != argv + argc && arguments.command.command.empty())
      return usage_error("there is no command behind --");
    return run(*run_app, arguments);
  }
  if (completion_app->parsed()) return print_completion(app, arguments.shell, arguments.command.command);
  if (separator != argv + argc) return usage_error("only `trainyard run` takes a command behind --");
  if (validate_app->parsed()) return validate_files(arguments.validated_files, std::cout, std::cerr);
  if (render_app->parsed()) return render_file(arguments.render, std::cout, std::cerr);
  if (logs_app->parsed()) return print_logs(arguments.logs);
  if (ps_app->parsed()) return list_runs(arguments.ps);
  if (status_app->parsed()) return print_status(arguments.status);
  if (checkpoint_app->parsed()) return request_checkpoint(arguments.checkpoint);
  std::optional<StopSignals> signals;
  const auto is_stopped = [&] { return signals && signals->count() > 0; };
  if (checkpoints_app->parsed()) {
    if (checkpoints.makes_files()) signals.emplace();
    return checkpoints.run(is_stopped);
  }
  if (snapshots_app->parsed()) {
    if (snapshots.makes_files()) signals.emplace();
    return snapshots.run(is_stopped);
  }
  return exit_usage;
}

}  // namespace
}  // namespace trainyard::cli

int main(int argc, char** argv) {
  try {
    return trainyard::cli::main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: this should not happen: %s\n", error.what());
    return trainyard::exit_failure;
  }
}
