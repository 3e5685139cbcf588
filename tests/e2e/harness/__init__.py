"""Shared by the end-to-end tests: the cluster, the API, jobs, storage, and waiting."""
