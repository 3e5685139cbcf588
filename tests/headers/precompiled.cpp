// Only carries the precompiled header that the tests reuse.
