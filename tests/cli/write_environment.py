"""Writes the environment of this rank into the folder that is named. In the first attempt it fails instead."""

import json
import os
import sys

if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    raise SystemExit(3)
with open(f"{sys.argv[1]}/rank-{os.environ['RANK']}.json", "w", encoding="utf-8") as file:
    json.dump(dict(os.environ), file)
