"""The exceptions of this package. Their messages are for users."""


class ClusterError(Exception):
    """Something failed; the message says what was tried, what came back, and what to do."""


class CannotRunHere(ClusterError):
    """This machine lacks something that the cluster needs (a tool, root)."""
