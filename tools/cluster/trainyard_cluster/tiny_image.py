"""Container images that hold one static program, written without any image tool: a tar in `docker save`'s form."""

import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path

from .failure import ClusterError

ACTOR_SOURCE = Path(__file__).absolute().parents[1] / "actor.c"
PAUSE_IMAGE = "localhost/pause:1"
ACTOR_IMAGE = "localhost/actor:1"


def write_actor_images(folder: Path) -> list[Path]:
    """Archives of PAUSE_IMAGE and ACTOR_IMAGE: one program, which waits for SIGTERM or does what its arguments say."""
    program = folder / "actor"
    done = subprocess.run(["cc", "-static", "-O2", "-o", program, ACTOR_SOURCE], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(f"cannot compile {ACTOR_SOURCE}: {done.stderr.strip()}")
    archives = [folder / "pause.tar", folder / "actor.tar"]
    write_image(archives[0], PAUSE_IMAGE, program, ["/actor", "wait"])
    write_image(archives[1], ACTOR_IMAGE, program, ["/actor"])
    return archives


def write_image(archive: Path, name: str, program: Path, entrypoint: list[str]) -> None:
    layer = _tar({program.name: (program.read_bytes(), 0o755)})
    config = json.dumps({
        "architecture": "amd64", "os": "linux",
        "config": {"Entrypoint": entrypoint, "User": "65532:65532"},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
    }).encode()
    manifest = json.dumps([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    archive.write_bytes(_tar({name: (data, 0o644) for name, data in
                              {"layer.tar": layer, "config.json": config, "manifest.json": manifest}.items()}))


def _tar(files: dict[str, tuple[bytes, int]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, (data, mode) in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), mode
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()
