"""What the end-to-end tests share: the cluster, the API, jobs, storage, and waiting."""
