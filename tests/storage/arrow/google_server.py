"""gcp-storage-emulator in memory on a port of the loopback address: python google_server.py PORT. By itself it answers one connection at a
time, which blocks clients that read two objects at once, and none that waits to be told to send a body."""

import functools
import http.server
import sys

from gcp_storage_emulator.server import RequestHandler
from gcp_storage_emulator.storage import Storage

RequestHandler.protocol_version = "HTTP/1.1"
RequestHandler.log_message = lambda *_: None
Storage._write_config_to_file = lambda _: None  # Of what is in memory: nobody reads it, and other threads change it meanwhile.
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), functools.partial(RequestHandler, Storage(use_memory_fs=True))).serve_forever()
