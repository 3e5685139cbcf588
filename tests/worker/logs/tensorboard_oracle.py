"""Prints what TensorBoard's own reader finds in a folder of event files, as JSON. Usage: tensorboard_oracle.py FOLDER"""

import json
import math
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

EVERYTHING = 0
accumulator = EventAccumulator(sys.argv[1], size_guidance={"scalars": EVERYTHING, "images": EVERYTHING})
accumulator.Reload()
found = {}
for tag in accumulator.Tags()["scalars"]:
    found[f"scalars {tag}"] = [[event.step, event.wall_time, event.value if math.isfinite(event.value) else str(event.value)]
                               for event in accumulator.Scalars(tag)]
for tag in accumulator.Tags()["images"]:
    found[f"images {tag}"] = [[event.step, event.wall_time, [event.width, event.height, event.encoded_image_string[:8].hex()]]
                              for event in accumulator.Images(tag)]
print(json.dumps(found, sort_keys=True))
