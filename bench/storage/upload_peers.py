"""Puts one object by Python's S3 clients, from memory. The environment names the server and the keys.

Usage: upload_peers.py boto3|arrow BUCKET MIB. Prints one JSON object of samples.
"""
import io
import json
import os
import resource
import sys
import time


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


def arrow_upload(bucket):
    import pyarrow  # pylint: disable=import-outside-toplevel
    from pyarrow import fs  # pylint: disable=import-outside-toplevel
    server = fs.S3FileSystem(endpoint_override=os.environ["AWS_ENDPOINT_URL_S3"])

    def upload(content):
        with server.open_output_stream(f"{bucket}/object") as stream:
            stream.write(pyarrow.py_buffer(content))
    return upload


def main():
    client, bucket, mebibytes = sys.argv[1], sys.argv[2], int(sys.argv[3])
    upload = {"boto3": boto3_upload, "arrow": arrow_upload}[client](bucket)
    content = os.urandom(1 << 20) * mebibytes
    resident_bytes = status_bytes("VmRSS")
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")  # Resets the peak: proc(5).
    cpu_before, began = cpu_seconds(), time.perf_counter()
    upload(content)
    seconds = time.perf_counter() - began
    print(json.dumps({"bytes": len(content), "seconds": seconds, "cpu_seconds": cpu_seconds() - cpu_before,
                      "memory_bytes": status_bytes("VmHWM") - resident_bytes}))


if __name__ == "__main__":
    main()
