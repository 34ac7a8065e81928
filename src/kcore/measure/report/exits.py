"""The exit codes of the command."""

from enum import IntEnum


class Exit(IntEnum):
    """The exit codes of a run; `--help` of each command explains them."""

    GOOD = 0
    FAILED = 1  # A cell, a scenario or a file is bad, or a figure has become worse.
    USAGE = 2
    INVALID = 3  # Something is missing, or results disagree: no verdict.
