"""Puts one object by other clients, from memory. The environment names the server and the keys.

Usage: upload_peers.py boto3|arrow|arrow-gs|arrow-az BUCKET MIB. Prints one JSON object of samples; for gs and az, which are also read from, one
that has those of the upload and of the download.
"""
import io
import json
import os
import resource
import sys
import time
import urllib.parse


def status_bytes(field):
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field + ":"))


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def boto3_upload(bucket):
    import boto3  # pylint: disable=import-outside-toplevel
    client = boto3.client("s3")
    return lambda content: client.upload_fileobj(io.BytesIO(content), bucket, "object")


def arrow_server(client):
    from pyarrow import fs  # pylint: disable=import-outside-toplevel
    if client == "arrow":
        return fs.S3FileSystem(endpoint_override=os.environ["AWS_ENDPOINT_URL_S3"])
    if client == "arrow-gs":
        return fs.GcsFileSystem(anonymous=True, scheme="http", endpoint_override=os.environ["STORAGE_EMULATOR_HOST"])
    authority = urllib.parse.urlsplit(os.environ["AZURE_STORAGE_BLOB_ENDPOINT"]).netloc
    return fs.AzureFileSystem(account_name=os.environ["AZURE_STORAGE_ACCOUNT_NAME"], account_key=os.environ["AZURE_STORAGE_ACCOUNT_KEY"],
                              blob_storage_authority=authority, dfs_storage_authority=authority, blob_storage_scheme="http",
                              dfs_storage_scheme="http")


def arrow_upload(server, bucket):
    import pyarrow  # pylint: disable=import-outside-toplevel

    def upload(content):
        with server.open_output_stream(f"{bucket}/object") as stream:
            stream.write(pyarrow.py_buffer(content))
    return upload


def measure(call):
    """What `call` returns, and its samples."""
    resident_bytes = status_bytes("VmRSS")
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")  # Resets the peak: proc(5).
    cpu_before, began = cpu_seconds(), time.perf_counter()
    result = call()
    seconds = time.perf_counter() - began
    return result, {"seconds": seconds, "cpu_seconds": cpu_seconds() - cpu_before, "memory_bytes": status_bytes("VmHWM") - resident_bytes}


def main():
    client, bucket, mebibytes = sys.argv[1], sys.argv[2], int(sys.argv[3])
    server = None if client == "boto3" else arrow_server(client)
    upload = arrow_upload(server, bucket) if server else boto3_upload(bucket)
    content = os.urandom(1 << 20) * mebibytes
    samples = {"bytes": len(content), **measure(lambda: upload(content))[1]}
    if client in ("boto3", "arrow"):
        print(json.dumps(samples))
        return
    with server.open_input_file(f"{bucket}/object") as file:
        read, download = measure(file.read)
    if read != content:
        sys.exit(f"error: {client} did not read what it had put")
    print(json.dumps({"upload": samples, "download": {"bytes": len(read), **download}}))


if __name__ == "__main__":
    main()
