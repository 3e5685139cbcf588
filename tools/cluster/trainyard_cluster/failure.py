"""The one exception of this package: what went wrong, for a person."""


class ClusterError(Exception):
    """Something was tried and failed; the message says what, on what, what came back, and what to do."""


class CannotRunHere(ClusterError):
    """This machine lacks something that the cluster needs (a tool, root)."""
