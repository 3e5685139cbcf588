#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string_view>

#include "cli/checkpoint_command.hpp"
#include "cli/checkpoints/command.hpp"
#include "cli/completion.hpp"
#include "cli/errors.hpp"
#include "cli/file_commands.hpp"
#include "cli/init_model.hpp"
#include "cli/local_job.hpp"
#include "cli/local_run.hpp"
#include "cli/logs.hpp"
#include "cli/run.hpp"
#include "cli/run_command.hpp"
#include "cli/run_folder.hpp"
#include "cli/snapshots/command.hpp"
#include "cli/status.hpp"
#include "cli/stop_signals.hpp"
#include "cli/text/output.hpp"
#include "common/exit_codes.hpp"
#include "common/logging.hpp"
#include "common/time_text.hpp"
#include "local/remote_program.hpp"

namespace trainyard::cli {
namespace {

constexpr const char* of_a_file = "With FILE";
constexpr const char* of_a_command = "With -- COMMAND";
constexpr const char* of_hosts = "On several machines";

struct Arguments {
  bool is_verbose = false;
  RunOptions run;
  RunCommandOptions command;
  ValidateOptions validate;
  RenderOptions render;
  LogsOptions logs;
  PsOptions ps;
  std::string shell;
  StatusOptions status;
  CheckpointRequestOptions checkpoint;
  InitModelOptions init_model;
};

void add_cluster_options(CLI::App& command, ClusterChoice& cluster) {
  command.add_option("-n,--namespace", cluster.name_space, "Look for the job in this namespace of a cluster");
  command
      .add_option("--kubeconfig", cluster.kubeconfig,
                  "Reach the cluster by this file [as kubectl: $KUBECONFIG, ~/.kube/config]")
      ->type_name("FILE");
  command.add_option("--context", cluster.context, "Use this context of the kubeconfig [its current context]");
}

CLI::App* declare_run(CLI::App& app, Arguments& arguments) {
  CLI::App* run = app.add_subcommand("run", "Run TrainingJobs on this machine, without Kubernetes");
  run->add_option("FILE", arguments.run.file,
                  "YAML file with TrainingJobs, which run one after the other; - reads standard input")
      ->type_name("YAML");
  run->add_option("--volume", arguments.run.volumes, "Use FOLDER as the PersistentVolumeClaim CLAIM; may be repeated")
      ->allow_extra_args(false)
      ->type_name("CLAIM=FOLDER")
      ->group(of_a_file);
  run->add_option("--secret", arguments.run.secrets,
                  "Use the KEY=VALUE lines of FILE as the Secret NAME; may be repeated")
      ->allow_extra_args(false)
      ->type_name("NAME=FILE")
      ->group(of_a_file);
  run->add_option("--dir", arguments.run.folder, "Keep checkpoints and logs in this folder [trainyard-runs/JOB]")
      ->type_name("DIR")
      ->group(of_a_file);
  run->add_option("--worker", arguments.run.worker,
                  "Train with this program [trainyard-worker: in this program's folder, else in PATH]")
      ->type_name("PROGRAM")
      ->group(of_a_file);
  run->add_option(
         "--devices", arguments.run.devices,
         "Train on these GPUs, with one rank on each (strategies dp and ddp2: one rank on all). 2: the first two; -1: "
         "all; '1,3': numbers 1 and 3, from 0; '1,': number 1 alone. Without GPUs, 2 starts two processes on the CPU "
         "[those that the job asks for]")
      ->type_name("CHOICE")
      ->group(of_a_file);
  run->add_flag(
         "--auto-select-gpus", arguments.run.auto_select_gpus,
         "Train only on GPUs on which no other process computes: as many as --devices says, or as the job asks for")
      ->group(of_a_file);
  auto* nproc = run->add_option("--nproc,--nproc-per-node,--np", arguments.command.processes,
                                "Start N ranks of COMMAND, as torchrun does. With -H or --hostfile: start N ranks of "
                                "FILE [as many as the job asks for]. -np is the same")
                    ->check(CLI::Range(1, 1024))
                    ->type_name("N")
                    ->group(of_a_command);
  run->add_option(
         "-t,--tee", arguments.command.tee,
         "Write output to files and print it with the rank before each line: 1 stdout, 2 stderr, 3 both; 0:1,1:3 "
         "chooses for each rank")
      ->needs(nproc)
      ->type_name("STREAMS")
      ->group(of_a_command);
  run->add_option("-r,--redirects", arguments.command.redirects,
                  "Write output to files and do not print it; STREAMS as for --tee")
      ->needs(nproc)
      ->type_name("STREAMS")
      ->group(of_a_command);
  run->add_option("--log-dir", arguments.command.log_folder,
                  "Keep logs in this folder [trainyard-runs/SCRIPT, or SCRIPT-2 and so on while another run uses it]")
      ->needs(nproc)
      ->type_name("DIR")
      ->group(of_a_command);
  run->add_option("--max-restarts", arguments.run.restarts_max,
                  "Restart all ranks at most N times after failures [the job's spec.restart; of COMMAND 0]")
      ->check(CLI::Range(std::int64_t{0}, restarts_max_limit))
      ->type_name("N");
  run->add_option("-H,--host", arguments.run.hosts.list,
                  "Run the ranks on these machines by ssh, such as host1:4,host2:4; localhost needs no ssh")
      ->type_name("HOST:SLOTS,...")
      ->group(of_hosts);
  run->add_option("--hostfile", arguments.run.hosts.file, "As -H, from a file with lines such as: host1 slots=4")
      ->type_name("FILE")
      ->group(of_hosts);
  run->add_option("--ssh-config", arguments.run.hosts.ssh_config, "Let ssh read this file (ssh -F)")
      ->type_name("FILE")
      ->group(of_hosts);
  run->footer(
      "Ctrl-C lets the ranks save a checkpoint and end; a second Ctrl-C kills them. Run the command again to\n"
      "resume from the last checkpoint; with checkpoint.resume none it begins afresh.\n"
      "Exit code: 0 succeeded, 1 failed, 2 wrong usage, 130 stopped by Ctrl-C.\n\n"
      "  trainyard run examples/smoke.yaml\n"
      "  trainyard run --nproc 3 -t 3 --log-dir logs -- python3 train.py\n"
      "  trainyard run examples/smoke.yaml -np 8 -H host1:4,host2:4");
  return run;
}

CLI::App* declare_validate(CLI::App& app, Arguments& arguments) {
  CLI::App* validate =
      app.add_subcommand("validate", "Check TrainingJobs for all that the API server or the operator would refuse");
  validate->add_option("FILE", arguments.validate.files, "YAML files; - reads standard input")
      ->type_name("YAML")
      ->required();
  add_output(*validate, arguments.validate.format, "text");
  validate->footer(
      "This check is stricter than the API server: it also refuses a key that is given twice, and a mistyped field of\n"
      "spec.template, which the server refuses only when the operator creates the pods.\n"
      "Exit code: 0 all jobs are valid; 1 a job is not valid, or there is no TrainingJob; 2 wrong usage.\n\n"
      "  trainyard validate examples/*.yaml");
  return validate;
}

CLI::App* declare_render(CLI::App& app, Arguments& arguments) {
  CLI::App* render =
      app.add_subcommand("render", "Print the pods and the service that the operator would create, as YAML");
  render->add_option("FILE", arguments.render.file, "YAML file with TrainingJobs; - reads standard input")
      ->type_name("YAML")
      ->required();
  render->add_option("-n,--namespace", arguments.render.name_space, "The namespace for jobs that name no namespace")
      ->capture_default_str();
  render->add_option("--worker-image", arguments.render.worker_image, "The worker image for jobs that name no image")
      ->capture_default_str();
  render->footer(
      "Exit code: 0 printed; 1 a job is not valid, or there is no TrainingJob; 2 wrong usage.\n\n"
      "  trainyard render examples/smoke.yaml");
  return render;
}

CLI::App* declare_logs(CLI::App& app, Arguments& arguments) {
  LogsOptions& options = arguments.logs;
  CLI::App* logs = app.add_subcommand("logs", "Print the output of a job's rank, on this machine or in a cluster");
  logs->add_option("JOB", options.job, "The job's name")->type_name("NAME")->required();
  logs->add_option("--rank", options.rank, "The rank; for pods with several ranks, the pod's index")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  logs->add_option("--attempt", options.attempt, "The attempt's number [the newest]");
  logs->add_flag(
      "-f,--follow", options.is_following,
      "Keep printing until the job, or the attempt of --attempt, ends; wait for a log that is not there yet");
  logs->add_option("--dir", options.folder, "The folder of a run on this machine [trainyard-runs/JOB]")
      ->type_name("DIR");
  add_cluster_options(*logs, options.cluster);
  logs->footer(
      "Without -n, --kubeconfig or --context a run in the current folder is preferred to a job in the cluster.\n\n"
      "  trainyard logs fashion-mnist --rank 1 -f\n"
      "  trainyard logs fashion-mnist -n research --attempt 1");
  return logs;
}

CLI::App* declare_completion(CLI::App& app, Arguments& arguments) {
  CLI::App* completion =
      app.add_subcommand("completion", "Print the script that lets a shell complete commands of trainyard");
  completion->add_option("SHELL", arguments.shell, "The shell")
      ->check(CLI::IsMember({"bash", "zsh"}))
      ->type_name("")
      ->required();
  completion->footer(
      "The script asks this program for commands, options, choices, runs and job files, so a new version of the\n"
      "program needs no new script. To ask, the script calls this command with -- WORDS.\n\n"
      "  source <(trainyard completion bash)       in ~/.bashrc\n"
      "  source <(trainyard completion zsh)        in ~/.zshrc, after: autoload -U compinit && compinit");
  return completion;
}

/// Prints the shell's script or, if there are `words`, the completions of the last of them.
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
  CLI::App* ps = app.add_subcommand("ps", "List the newest run of each job on this machine");
  ps->add_option("--dir", arguments.ps.folder,
                 "The folder that holds the folders of runs, or the folder of one run [trainyard-runs]")
      ->type_name("DIR");
  add_output(*ps, arguments.ps.format);
  ps->footer(
      "PHASE is the TrainingJob's phase, or Interrupted: the run's process died before the job ended; or Ended: the\n"
      "run left no status. AGE is the time since the run began. The newest run is the last. For jobs in a cluster:\n"
      "kubectl get tj\n"
      "Exit code: 0 listed, 1 the files of a run cannot be read, 2 wrong usage.\n\n"
      "  trainyard ps\n"
      "  trainyard ps -o json");
  return ps;
}

CLI::App* declare_status(CLI::App& app, Arguments& arguments) {
  StatusOptions& options = arguments.status;
  CLI::App* status =
      app.add_subcommand("status", "Show a job's progress and how its attempts ended, on this machine or in a cluster");
  status->add_option("JOB", options.job, "The job's name")->type_name("NAME")->required();
  status->add_option("--dir", options.folder, "The folder of a run on this machine [trainyard-runs/JOB]")
      ->type_name("DIR");
  add_output(*status, options.format, "text");
  add_cluster_options(*status, options.cluster);
  status->footer(
      "Without -n, --kubeconfig or --context a run in the current folder is preferred to a job in the cluster.\n"
      "Exit code: 0 shown, even if the job failed; 1 there is no such job, or it cannot be read; 2 wrong usage.\n\n"
      "  trainyard status fashion-mnist\n"
      "  trainyard status fashion-mnist -n research -o yaml");
  return status;
}

CLI::App* declare_checkpoint(CLI::App& app, Arguments& arguments) {
  CheckpointRequestOptions& options = arguments.checkpoint;
  CLI::App* checkpoint =
      app.add_subcommand("checkpoint", "Ask a running job to save a checkpoint now, on this machine or in a cluster");
  checkpoint->add_option("JOB", options.job, "The job's name")->type_name("NAME")->required();
  checkpoint
      ->add_option_function<std::string>(
          "--timeout",
          [&options](const std::string& text) {
            const auto timeout = parse_duration(text);
            if (!timeout) throw CLI::ValidationError("--timeout", timeout.error().message);
            options.timeout = *timeout;
          },
          "Wait for the answer for this long, such as 90s [5m]")
      ->type_name("DURATION");
  checkpoint->add_flag("--no-wait", options.is_sent_only,
                       "Send the request and do not wait; the job's status will hold the answer");
  checkpoint->add_option("--dir", options.folder, "The folder of a run on this machine [trainyard-runs/JOB]")
      ->type_name("DIR");
  add_cluster_options(*checkpoint, options.cluster);
  checkpoint->footer(
      "Training continues while the checkpoint is written. Without -n, --kubeconfig or --context a run in progress in\n"
      "the current folder is preferred to a job in the cluster.\n"
      "Exit code: 0 saved (or sent), 1 no checkpoint was saved, 2 wrong usage.\n\n"
      "  trainyard checkpoint fashion-mnist --timeout 10m");
  return checkpoint;
}

CLI::App* declare_init(CLI::App& app, Arguments& arguments) {
  CLI::App* init = app.add_subcommand("init", "Begin a project of your own");
  init->require_subcommand(1);
  CLI::App* model = init->add_subcommand("model", "Write a project with a model of your own that builds and trains");
  model->add_option("NAME", arguments.init_model.name, "The model's name, as jobs give it")
      ->type_name("NAME")
      ->required();
  model->add_option("--dir", arguments.init_model.folder, "Write into this folder [NAME with dashes]")
      ->type_name("DIR");
  model->footer(
      "The project has a LibTorch module with its data, a CMakeLists.txt, a job and a Dockerfile. It is built against\n"
      "an installed Trainyard.\n"
      "Exit code: 0 written, 1 the folder has files or cannot be written, 2 wrong usage.\n\n"
      "  trainyard init model my_net");
  return init;
}

int usage_error(const std::string& sentence) {
  std::cerr << "error: " << sentence << "\nTry: trainyard run --help\n";
  return exit_usage;
}

/// The first option of `group` that the user gave, other than `but`; empty: none.
std::string given_option(const CLI::App& app, const std::string& group, const std::string& but = "") {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group() == group && option->count() > 0 && option->get_name() != but) return option->get_name();
  }
  return "";
}

/// torchrun takes the program without "--"; this error shows the command line that would run it here.
std::string command_hint(const Arguments& arguments, const std::vector<std::string>& rest) {
  const bool is_python = arguments.run.file.ends_with(".py");
  std::string command = (is_python ? "python3 " : "") + arguments.run.file;
  for (const auto& word : rest) command += " " + word;
  return "put the command of the ranks after --: trainyard run --nproc " + std::to_string(arguments.command.processes) +
         " -- " + command;
}

int print_error(const std::string& text) {
  std::cerr << text;
  return exit_usage;
}

int run(const CLI::App& app, Arguments& arguments) {
  const std::string& file = arguments.run.file;
  const bool has_hosts = arguments.run.hosts.are_given();
  if (!arguments.run.hosts.ssh_config.empty() && !has_hosts) return usage_error("--ssh-config needs -H or --hostfile");
  if (has_hosts && (arguments.run.devices || arguments.run.auto_select_gpus)) {
    return usage_error("--devices and --auto-select-gpus are for this machine: leave them out with -H and --hostfile");
  }
  if (has_hosts && app.count("--nproc") > 0) arguments.run.rank_count = arguments.command.processes;
  arguments.command.hosts = arguments.run.hosts;
  arguments.command.restarts_max = arguments.run.restarts_max.value_or(0);
  const bool is_program = file.ends_with(".py") || file.ends_with(".sh");
  if (arguments.command.command.empty()) {
    if (file.empty()) return usage_error("run needs a FILE, or a command after --");
    const std::string stray = given_option(app, of_a_command, has_hosts ? "--nproc" : "");
    if (is_program || (!stray.empty() && !file.ends_with(".yaml") && !file.ends_with(".yml") && file != "-"))
      return usage_error(command_hint(arguments, {}));
    if (!stray.empty()) {
      return usage_error(stray +
                         " is for a command after --; a TrainingJob sets the number of its pods by spec.replicas" +
                         (stray == "--nproc" ? ", and --devices chooses another number for this machine" : ""));
    }
    return run_file(arguments.run);
  }
  if (!file.empty()) return usage_error("run takes a FILE or -- COMMAND, not both");
  if (const std::string stray = given_option(app, of_a_file); !stray.empty()) {
    return usage_error(stray + " is for a FILE with TrainingJobs" +
                       (stray == "--dir" ? "; for the logs of a command use --log-dir" : ", not for a command"));
  }
  return run_command(arguments.command);
}

int main(int argc, char** argv) {
  Arguments arguments;
  // Every word after "--" belongs to the command of the ranks, even one that looks like an option of ours.
  const auto separator = std::find(argv, argv + argc, std::string_view{"--"});
  if (separator != argv + argc) arguments.command.command.assign(separator + 1, argv + argc);

  // CLI11 knows no option of two letters behind one dash, as mpirun and horovodrun have it.
  static char np[] = "--np";
  for (char** word = argv; word != separator; ++word) {
    if (*word == std::string_view{"-np"}) *word = np;
  }

  CheckpointsCommand checkpoints;
  SnapshotsCommand snapshots;
  CLI::App app{"Distributed training on Kubernetes; the same YAML also runs on this machine"};
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
  const CLI::App* init_app = declare_init(app, arguments);
  const CLI::App* completion_app = declare_completion(app, arguments);
  try {
    app.parse(static_cast<int>(separator - argv), argv);
  } catch (const CLI::ExtrasError&) {
    if (run_app->parsed() && arguments.command.command.empty() && !given_option(*run_app, of_a_command).empty())
      return usage_error(command_hint(arguments, app.remaining(true)));
    return print_error(unknown_argument(app.remaining(true).front(), innermost_command(app)));
  } catch (const CLI::ParseError& error) {
    // CLI11 throws --help and --version, too, as errors with exit code 0.
    if (error.get_exit_code() == 0) return app.exit(error);
    for (const CLI::App* group : {static_cast<const CLI::App*>(&app), checkpoints_app, snapshots_app, init_app}) {
      const bool is_meant = group == &app || group->parsed();
      if (!is_meant || !group->get_subcommands().empty()) continue;
      const auto rest = app.remaining(true);
      const bool is_option = !rest.empty() && rest.front().starts_with('-');
      if (is_option) return print_error(unknown_argument(rest.front(), *group));
      return print_error(rest.empty() ? missing_command(*group) : unknown_command(rest.front(), *group));
    }
    return print_error(wrong_value(error.what(), innermost_command(app)));
  }
  logging::set_up(logging::Format::text, arguments.is_verbose ? logging::Level::debug : logging::Level::error);
  if (run_app->parsed()) {
    if (separator != argv + argc && arguments.command.command.empty())
      return usage_error("there is no command after --");
    return run(*run_app, arguments);
  }
  if (completion_app->parsed()) return print_completion(app, arguments.shell, arguments.command.command);
  if (separator != argv + argc) return usage_error("only `trainyard run` takes a command after --");
  if (validate_app->parsed()) return validate_files(arguments.validate, std::cout, std::cerr);
  if (render_app->parsed()) return render_file(arguments.render, std::cout, std::cerr);
  if (logs_app->parsed()) return print_logs(arguments.logs);
  if (ps_app->parsed()) return list_runs(arguments.ps);
  if (status_app->parsed()) return print_status(arguments.status);
  if (checkpoint_app->parsed()) return request_checkpoint(arguments.checkpoint);
  if (init_app->parsed()) {
    arguments.init_model.prefix = installation_of(std::filesystem::read_symlink("/proc/self/exe"));
    return init_model(arguments.init_model, std::cout, std::cerr);
  }
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

/// Runs a program on another machine until it ends (local/remote_program.hpp). `trainyard run` starts this process.
int run_remote(int argc, char** argv) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  const auto program = local::parse_remote_program({argv + 2, argv + argc}, environment);
  return program ? local::run_remote_program(*program) : usage_error(program.error().message);
}

}  // namespace
}  // namespace trainyard::cli

int main(int argc, char** argv) {
  try {
    if (argc > 1 && argv[1] == trainyard::local::remote_command) return trainyard::cli::run_remote(argc, argv);
    return trainyard::cli::main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: this should not happen: %s\n", error.what());
    return trainyard::exit_failure;
  }
}
