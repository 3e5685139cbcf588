"""Servers on the loopback address: for S3 a real one (versitygw) over a folder in memory, and a sink; for gs and az those of the tests."""
import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "training"))
import runs

BUCKET = "bench"
KEYS = {"AWS_ACCESS_KEY_ID": "bench-key", "AWS_SECRET_ACCESS_KEY": "bench-secret-0123456789", "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}


# Azurite's account, whose key is public, and a token for all of its containers until the year 2100.
AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
AZURE_TOKEN = "sv=2018-11-09&ss=b&srt=sco&sp=rwdlac&se=2100-01-01T00%3A00%3A00Z&sig=RDDDurbJp2cvHUsQPpwYRTbDWU4Ja0vOBapV13xEMmw%3D"


def wait_until_listening(server, port, name="versitygw"):
    deadline = time.monotonic() + 30
    while True:
        if server.poll() is not None:
            sys.exit(f"error: {name}, the server of the bench, ended with exit code {server.returncode} before it listened; its output is above")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                sys.exit(f"error: {name}, the server of the bench, did not listen on port {port} within 30 s; run the bench on an idle machine")
            time.sleep(0.05)


@contextlib.contextmanager
def s3_server(folder):
    """Serves bucket BUCKET from `folder`; yields the environment with which clients find the server."""
    program = runs.script_folder("tools_home") / "versitygw"
    if not program.exists():
        sys.exit("error: versitygw is not installed: run scripts/setup cluster")
    (folder / "buckets" / BUCKET).mkdir(parents=True)
    (folder / "metadata").mkdir()
    port = runs.free_port()
    server = subprocess.Popen([program, "--port", f"127.0.0.1:{port}", "--access", KEYS["AWS_ACCESS_KEY_ID"], "--secret",
                               KEYS["AWS_SECRET_ACCESS_KEY"], "--keep-alive", "--quiet", "posix", "--sidecar", folder / "metadata",
                               folder / "buckets"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until_listening(server, port)
        yield {**os.environ, **KEYS, "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{port}", "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}
    finally:
        server.kill()
        server.wait()


@contextlib.contextmanager
def upload_sink(counts):
    """Serves upload_sink, which discards the uploads; yields the environment with which clients find it. At the end `counts` holds its counts."""
    with subprocess.Popen([runs.ROOT / "build/release/bench/storage/upload_sink"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as sink:
        port = int(sink.stdout.readline())
        yield {**os.environ, **KEYS, "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{port}"}
        counts.update(json.loads(sink.communicate()[0]))


@contextlib.contextmanager
def cloud_server(scheme, folder):
    """Serves bucket BUCKET of "gs" or "az"; yields the environment with which clients find the server."""
    port = runs.free_port()
    if scheme == "gs":
        name = "gcp-storage-emulator"
        command = [runs.torch_python(), runs.ROOT / "tests/storage/google_server.py", str(port)]
        bucket = urllib.request.Request(f"http://127.0.0.1:{port}/storage/v1/b?project=bench", json.dumps({"name": BUCKET}).encode(),
                                        {"Content-Type": "application/json"})
        variables = {"STORAGE_EMULATOR_HOST": f"127.0.0.1:{port}"}
    else:
        name = "azurite"
        program = runs.script_folder("azurite_home") / "node_modules/.bin/azurite-blob"
        if not program.exists():
            sys.exit("error: azurite is not installed: run scripts/setup cluster")
        command = [program, "--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", folder, "--silent", "--skipApiVersionCheck",
                   "--disableTelemetry"]
        endpoint = f"http://127.0.0.1:{port}/{AZURE_ACCOUNT}"
        bucket = urllib.request.Request(f"{endpoint}/{BUCKET}?restype=container&{AZURE_TOKEN}", b"", method="PUT")
        variables = {"AZURE_STORAGE_ACCOUNT_NAME": AZURE_ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": AZURE_KEY, "AZURE_STORAGE_BLOB_ENDPOINT": endpoint}
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        wait_until_listening(server, port, name)
        urllib.request.urlopen(bucket, timeout=30).close()
        yield {**os.environ, **variables}
    finally:
        server.kill()
        server.wait()
