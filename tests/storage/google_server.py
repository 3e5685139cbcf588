"""gcp-storage-emulator in memory on a port of the loopback address: python google_server.py PORT. It answers several connections at a time, and
knows what the emulator lacks and Google has: creation on a condition, pages of a list, checksums of uploads, XML multipart uploads, and words for
what is not there. Sources: https://cloud.google.com/storage/docs/json_api/v1/objects and https://cloud.google.com/storage/docs/multipart-uploads"""

import base64
import functools
import http.server
import json
import re
import sys
import threading
import urllib.parse
import uuid

import google_crc32c
from gcp_storage_emulator import server
from gcp_storage_emulator.handlers import objects
from gcp_storage_emulator.storage import Storage

Storage._write_config_to_file = lambda _: None  # Nobody reads the file, and other threads change the objects while it is written.
read_data = server._read_data
server._read_data = lambda handler, query: read_data(handler, query) or b""  # An object without bytes is one too.


def crc32c(content):
    return base64.b64encode(google_crc32c.Checksum(content).digest()).decode()


class Handler(server.RequestHandler):
    protocol_version = "HTTP/1.1"
    lock = threading.Lock()  # Guards uploads, and makes creation on a condition one step.
    uploads = {}  # id -> {"bucket", "object", "parts": {number: bytes}}

    def log_message(self, *_):
        pass

    def split(self):
        url = urllib.parse.urlsplit(self.path)
        return url.path, {name: values[0] for name, values in urllib.parse.parse_qs(url.query, keep_blank_values=True).items()}

    def answer(self, status, content=b"", content_type="application/xml", **headers):
        self.send_response(status)
        for name, value in {"Content-Type": content_type, "Content-Length": str(len(content)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)

    def refuse(self, status, reason, message):
        error = {"error": {"code": status, "message": message, "errors": [{"reason": reason, "message": message}]}}
        self.answer(status, json.dumps(error).encode(), "application/json")

    def refuse_xml(self, status, code):
        self.answer(status, f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>words</Message></Error>".encode())

    def has_bucket(self, path):
        bucket = re.match(r"^(?:/upload|/download)?(?:/storage/v1)?/b/([^/]+)/o|^/(?!storage/|upload/|download/|b/)([^/]+)", path)
        return bucket is None or (bucket[1] or bucket[2]) in self.storage.buckets

    def sent_checksum(self):
        return (re.search(r"crc32c=([^, ]+)", self.headers.get("x-goog-hash", "")) or ["", ""])[1]

    def do_GET(self):
        path, query = self.split()
        if not self.has_bucket(path):
            return self.refuse(404, "notFound", "The specified bucket does not exist.")
        if "uploads" in query:
            return self.list_uploads(path.strip("/"), query)
        if path.endswith("/o") and "maxResults" in query:
            return self.list_page(path.split("/")[-2], query)
        if query.get("alt") == "media":
            name = urllib.parse.unquote(path.partition("/o/")[2])
            bucket = path.split("/b/")[1].split("/")[0]
            if name not in self.storage.objects.get(bucket, {}):
                return self.answer(404, f"No such object: {bucket}/{name}".encode(), "text/html; charset=UTF-8")
            first = re.match(r"bytes=(\d+)-", self.headers.get("Range", ""))
            if first and int(first[1]) >= int(self.storage.objects[bucket][name]["size"]):
                return self.answer(416, b"Request range not satisfiable", "text/html; charset=UTF-8")
        super().do_GET()

    def list_page(self, bucket, query):
        items, _ = self.storage.get_file_list(bucket, query.get("prefix"))
        begin = int(query.get("pageToken", "0"))
        end = begin + int(query["maxResults"])
        page = {"items": [{"name": item["name"], "size": item["size"]} for item in items[begin:end]]}
        if end < len(items):
            page["nextPageToken"] = str(end)
        self.answer(200, json.dumps(page).encode(), "application/json")

    def do_POST(self):
        path, query = self.split()
        if path.startswith("/upload/") and query.get("uploadType") != "resumable":
            return self.insert(path, query)
        if "uploads" in query:
            bucket, _, name = path.lstrip("/").partition("/")
            if bucket not in self.storage.buckets:
                return self.refuse_xml(404, "NoSuchBucket")
            upload = uuid.uuid4().hex
            with self.lock:
                self.uploads[upload] = {"bucket": bucket, "object": urllib.parse.unquote(name), "parts": {}}
            return self.answer(200, f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>".encode())
        if "uploadId" in query:
            return self.complete(query["uploadId"])
        super().do_POST()

    def insert(self, path, query):
        bucket, name = path.split("/")[-2], query.get("name", "")
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if bucket not in self.storage.buckets:
            return self.refuse(404, "notFound", "The specified bucket does not exist.")
        if self.sent_checksum() not in ("", crc32c(content)):
            return self.refuse(400, "invalid", f'Provided CRC32C "{self.sent_checksum()}" does not match calculated CRC32C "{crc32c(content)}".')
        with self.lock:
            if query.get("ifGenerationMatch") == "0" and name in self.storage.objects.get(bucket, {}):
                return self.refuse(412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold.")
            self.answer(200, json.dumps(self.store(bucket, name, content)).encode(), "application/json")

    def store(self, bucket, name, content):
        resource = objects._make_object_resource("http://localhost", bucket, name, "application/octet-stream", str(len(content)))
        resource = objects._checksums(content, resource)
        self.storage.create_file(bucket, name, content, resource)
        return resource

    def do_PUT(self):
        _, query = self.split()
        if "uploadId" not in query:
            return super().do_PUT()
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if self.sent_checksum() not in ("", crc32c(content)):
            return self.refuse_xml(400, "BadDigest")
        with self.lock:
            if query["uploadId"] not in self.uploads:
                return self.refuse_xml(404, "NoSuchUpload")
            self.uploads[query["uploadId"]]["parts"][int(query["partNumber"])] = content
        self.answer(200, ETag=f'"{crc32c(content)}"', x_goog_hash=f"crc32c={crc32c(content)}")

    def complete(self, upload_id):
        wanted = self.rfile.read(int(self.headers["Content-Length"])).decode()
        with self.lock:
            upload = self.uploads.get(upload_id)
            if upload is None:
                return self.refuse_xml(404, "NoSuchUpload")
            # Google refuses any condition here.
            if any(name.lower().startswith(("x-goog-if", "if-")) for name in self.headers):
                return self.refuse_xml(400, "NotImplemented")
            numbers = [int(number) for number in re.findall(r"<PartNumber>(\d+)</PartNumber>", wanted)]
            if numbers != sorted(upload["parts"]):
                return self.refuse_xml(400, "InvalidPart")
            self.store(upload["bucket"], upload["object"], b"".join(upload["parts"][number] for number in numbers))
            del self.uploads[upload_id]
        self.answer(200, b"<CompleteMultipartUploadResult></CompleteMultipartUploadResult>")

    def list_uploads(self, bucket, query):
        with self.lock:
            found = [(upload, known["object"]) for upload, known in self.uploads.items()
                     if known["bucket"] == bucket and known["object"].startswith(query.get("prefix", ""))]
        items = "".join(f"<Upload><Key>{name}</Key><UploadId>{upload}</UploadId><Initiated>2020-01-01T00:00:00.000Z</Initiated></Upload>"
                        for upload, name in found)
        self.answer(200, f"<ListMultipartUploadsResult>{items}<IsTruncated>false</IsTruncated></ListMultipartUploadsResult>".encode())

    def do_DELETE(self):
        path, query = self.split()
        if not self.has_bucket(path):
            return self.refuse(404, "notFound", "The specified bucket does not exist.")
        if "uploadId" not in query:
            return super().do_DELETE()
        with self.lock:
            known = self.uploads.pop(query["uploadId"], None)
        return self.answer(204) if known else self.refuse_xml(404, "NoSuchUpload")


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), functools.partial(Handler, Storage(use_memory_fs=True))).serve_forever()
