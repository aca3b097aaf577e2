"""What the exit codes of commands mean."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """How a command ended; the reference page of the commands has this table."""

    DONE = 0
    NO = 1
    ERROR = 2
    INCONCLUSIVE = 3
    NOT_VERIFIED = 4
    INTERRUPTED = 130


MEANINGS = {
    ExitCode.DONE: "Done. `forget`: achieved. `verify`: everything was checked, and holds; with "
    "`--quick`: all hashes and signatures hold.",
    ExitCode.NO: "Done, and the answer is no. `forget`: not achieved. `verify`: something does "
    "not hold. `ledger --find`: no request names the id.",
    ExitCode.ERROR: "An error, whatever it is: wrong usage, data that cannot be used, a full disk, "
    "a fault in expunge or in code that it was told to call.",
    ExitCode.INCONCLUSIVE: "`forget`: a model that forgot nothing would have passed the same "
    "tests.",
    ExitCode.NOT_VERIFIED: "`verify`: nothing is wrong, but numbers were not recomputed.",
    ExitCode.INTERRUPTED: "Interrupted by Ctrl-C; the same command resumes.",
}
