"""The command line: `scripts/cluster COMMAND`."""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from .failure import CannotRunHere, ClusterError
from .runner import DETACH, keep_cluster, keep_control_plane, keep_inside
from .node import CTR
from .sandbox import enter_command
from .state import ClusterFolder

REPOSITORY = Path(__file__).absolute().parents[3]
EXIT_CANNOT_RUN_HERE = 3
CONTROL_PLANE_TOOLS = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
CONTROL_PLANE_COMMANDS = ("openssl", "setpriv")
NODE_TOOLS = ("kube-scheduler", "kubelet", "coredns")
NODE_COMMANDS = ("unshare", "nsenter", "ip", "cc", "containerd", "ctr", "runc", "/usr/lib/cni/bridge")
HIDDEN_INSIDE = ("/run", "/var/run", "/var/log", "/proc")  # The node's programs get these places for themselves.


def main() -> int:
    options = _parser().parse_args()
    try:
        return options.command(options)
    except CannotRunHere as error:
        return _fail(error, EXIT_CANNOT_RUN_HERE)
    except ClusterError as error:
        return _fail(error, 1)


def _parser() -> argparse.ArgumentParser:
    cache = Path(os.environ["TRAINYARD_CACHE_HOME"])
    parser = argparse.ArgumentParser(prog="scripts/cluster", description=__import__("trainyard_cluster").__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, function, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(command=function)
        sub.add_argument("--dir", type=Path, default=Path(os.environ.get("TRAINYARD_CLUSTER") or cache / "cluster"),
                         help="the cluster's folder (default: $TRAINYARD_CLUSTER, now %(default)s)")
        return sub

    for name, function, text in (
            ("up", up, "start a cluster and leave it running"),
            ("run", run, "start a cluster that ends with this process or with its stdin")):
        sub = command(name, function, text)
        sub.add_argument("--control-plane-only", action="store_true",
                         help="etcd, kube-apiserver and kube-controller-manager alone: no root, no nodes")
        sub.add_argument("--definitions", type=Path,
                         help="folder of CustomResourceDefinitions to install (default: crds/ with --control-plane-only, otherwise none, "
                              "since the chart installs its own and helm refuses others)")
    command("down", down, "end the cluster and remove its folder")
    command("status", status, "print what runs and how to use it")
    command("env", env, "print the shell command that makes kubectl and helm use it")
    sub = command("kubectl", kubectl, "run kubectl against the cluster")
    sub.add_argument("arguments", nargs=argparse.REMAINDER, metavar="-- ARGUMENTS", help="arguments of kubectl")
    sub = command("load", load, "import images into the node")
    sub.add_argument("archives", nargs="+", type=Path, metavar="ARCHIVE", help="a tar in `docker save`'s form, or an OCI archive")
    sub = command("exec", execute, "run a program inside the cluster's network, process and mount namespaces; it ends with the cluster")
    sub.add_argument("arguments", nargs=argparse.REMAINDER, metavar="-- PROGRAM", help="the program and its arguments")
    sub = command("inside", inside, argparse.SUPPRESS)  # `run` starts this as the first process of the cluster's namespaces.
    sub.add_argument("--definitions", type=Path)
    sub.add_argument("--lock-fd", type=int)
    return parser


def up(options: argparse.Namespace) -> int:
    words = [sys.executable, "-m", "trainyard_cluster", "run", "--dir", str(options.dir.absolute())]
    if options.definitions:
        words += ["--definitions", str(options.definitions.absolute())]
    if options.control_plane_only:
        words.append("--control-plane-only")
    # No `with`: the runner outlives this process.
    runner = subprocess.Popen(  # pylint: disable=consider-using-with
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    if runner.stdout.readline().strip() != "ready":
        print(runner.communicate()[1].rstrip(), file=sys.stderr)
        return runner.returncode
    runner.stdin.write(DETACH + "\n")
    runner.stdin.flush()
    runner.stdout.readline()  # The runner's answer: from now on it ignores the end of its stdin.
    return status(options)


def run(options: argparse.Namespace) -> int:
    folder = ClusterFolder(options.dir)
    if options.control_plane_only:
        _require(CONTROL_PLANE_TOOLS, CONTROL_PLANE_COMMANDS)
        keep_control_plane(folder, _tools(), (options.definitions or REPOSITORY / "crds").absolute())
        return 0
    _require(CONTROL_PLANE_TOOLS + NODE_TOOLS, CONTROL_PLANE_COMMANDS + NODE_COMMANDS)
    if os.geteuid() != 0:
        raise CannotRunHere("a cluster with a node needs root (try sudo); with --control-plane-only it does not")
    if any(folder.path.is_relative_to(place) for place in HIDDEN_INSIDE):
        raise ClusterError(f"{folder.path} cannot be seen from inside the cluster: name a folder outside {', '.join(HIDDEN_INSIDE)}")
    keep_cluster(folder, _tools(), options.definitions and options.definitions.absolute())
    return 0


def inside(options: argparse.Namespace) -> int:
    keep_inside(ClusterFolder(options.dir), _tools(), options.definitions, options.lock_fd)
    return 0


def down(options: argparse.Namespace) -> int:
    folder = ClusterFolder(options.dir)
    print(f"ended the cluster of {folder.path}" if folder.stop() else f"no cluster in {folder.path}")
    return 0


def status(options: argparse.Namespace) -> int:
    folder = ClusterFolder(options.dir)
    if not folder.is_running():
        print(f"no cluster runs in {folder.path}; `scripts/cluster up` starts one")
        return 1
    state = folder.read_status()
    if not state:
        print(f"the cluster of {folder.path} is starting; its logs: {folder.path}/logs")
        return 1
    print(f"API server   {state['server']}")
    for name, component in state["components"].items():
        restarts = f", started again {component['restarts']} times" if component["restarts"] else ""
        print(f"  {name:<24} {'running' if component['pid'] else 'down'}{restarts}")
    print(f"logs         {folder.path}/logs")
    print(f"use it       {_shell_line(folder)}")
    return 0


def env(options: argparse.Namespace) -> int:
    folder = ClusterFolder(options.dir)
    if not folder.is_running():
        raise ClusterError(f"no cluster runs in {folder.path}; `scripts/cluster up` starts one")
    print(_shell_line(folder))
    return 0


def kubectl(options: argparse.Namespace) -> int:
    program = str(_tools() / "kubectl")
    os.environ["KUBECONFIG"] = str(options.dir.absolute() / "kubeconfig")
    os.execv(program, [program, *_without_dashes(options.arguments)])


def load(options: argparse.Namespace) -> int:
    for archive in options.archives:
        words = [*_enter(options), *CTR, "images", "import", str(archive.absolute())]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ClusterError(f"cannot import {archive} into the node: {done.stderr.strip()}")
    return 0


def execute(options: argparse.Namespace) -> int:
    words = [*_enter(options), *_without_dashes(options.arguments)]
    os.execvp(words[0], words)


def _shell_line(folder: ClusterFolder) -> str:
    return f'export KUBECONFIG="{folder.path}/kubeconfig" PATH="{_tools()}:$PATH"'


def _enter(options: argparse.Namespace) -> list[str]:
    pid_file = options.dir / "sandbox"
    if not ClusterFolder(options.dir).is_running() or not pid_file.exists():
        raise ClusterError(f"no cluster with a node runs in {options.dir}; `scripts/cluster up` starts one")
    return enter_command(int(pid_file.read_text()))


def _without_dashes(words: list[str]) -> list[str]:
    return words[1:] if words[:1] == ["--"] else words


def _tools() -> Path:
    return Path(os.environ["TRAINYARD_TOOLS_HOME"])


def _require(tools: tuple[str, ...], commands: tuple[str, ...]) -> None:
    missing = [name for name in tools if not os.access(_tools() / name, os.X_OK)]
    missing += [name for name in commands if shutil.which(name) is None]
    if missing:
        raise CannotRunHere(f"not installed: {', '.join(missing)}; `scripts/setup cluster` installs what the cluster needs")


def _fail(error: ClusterError, code: int) -> int:
    print(f"error: {error}", file=sys.stderr)
    return code
