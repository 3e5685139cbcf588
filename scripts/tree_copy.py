"""A copy of the working tree, in which scripts/mutants and scripts/mutate change sources and build."""

import contextlib
import fcntl
import pathlib
import subprocess
from collections.abc import Iterator, Mapping

SOURCE = pathlib.Path(__file__).resolve().parent.parent


def copy_tree(target: pathlib.Path, changed: Mapping[str, bytes]) -> None:
    """Brings `target` up to date with the working tree, with `changed` in place of these files. A file that stays the same keeps its time, and
    what was built of it."""
    listing = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=SOURCE, check=True, capture_output=True)
    names = {name for name in listing.stdout.decode().split("\0") if name and (SOURCE / name).is_file()}
    for path in [path for path in target.rglob("*") if path.is_file() and path.relative_to(target).parts[0] != "build"]:
        if path.relative_to(target).as_posix() not in names:
            path.unlink()
    for name in names:
        path, content = target / name, changed.get(name) or (SOURCE / name).read_bytes()
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            path.chmod((SOURCE / name).stat().st_mode)


@contextlib.contextmanager
def locked(path: pathlib.Path) -> Iterator[None]:
    """Holds a lock, so that two runs do not change the same tree. Raises SystemExit while another run holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SystemExit(f"error: another run changes the sources in {path.parent.relative_to(SOURCE)}: wait for its end, or use another clone") from None
        yield
