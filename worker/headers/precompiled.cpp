// Only carries the precompiled header that the worker's libraries reuse.
