"""Reduces Spark's error texts, which have a hundred lines around the cause, to one sentence."""

import re
from typing import Final

LOST: Final = "executor lost"  # Begins the sentence if the cause is a lost executor, not the work itself.
ENDED: Final = "Spark ended the application"
_EXECUTOR: Final = re.compile(r"ExecutorLostFailure \(executor (\S+) .*?\)(?: Reason: ([^\n]*))?")
_HOST: Final = re.compile(r"\(TID \d+\) \((\S+) executor")
_NO_MODULE: Final = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_NO_PYTHON: Final = re.compile(r'Cannot run program "([^"]+)"')
_VERSIONS: Final = re.compile(r"\[PYTHON_VERSION_MISMATCH\] ([^\n]*)")
_APPLICATION_ENDED: Final = re.compile(r"SparkContext was shut down|stopped SparkContext|masters are unresponsive")
_PYTHON_ERROR: Final = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Interrupt)): (.+)$", re.MULTILINE)
_DEAD: Final = re.compile(r"^.*(?:Lost task|Caused by:).*$", re.MULTILINE)
_JAVA_ERROR: Final = re.compile(r"An error occurred while calling [^\n]*\n: ([\w.$]+)(?:: ([^\n]*))?")
INSTALL: Final = (
    "install the same kcore in the Python of the executors (PYSPARK_PYTHON names that Python), or send it along: "
    "`kcore spark archive FILE` writes an archive and prints the options"
)


def is_spark_at_fault(error: str) -> bool:
    """True if a sentence of this module names a lost executor or a lost master: the work itself did not fail."""
    return error.startswith((LOST, ENDED))


def sentence(error: BaseException) -> str:
    """The cause of an exception of PySpark or Py4J in one line, with a remedy if one is known."""
    return sentence_of(str(error)) or type(error).__name__


def sentence_of(text: str) -> str:
    """As `sentence`, but from the text of Spark's error."""
    if found := _EXECUTOR.search(text):
        host = _HOST.search(text)
        where = f" on {host[1]}" if host else ""
        return f"{LOST}: {found[1]}{where}: {(found[2] or 'no reason is known').split('. ')[0].rstrip('.')}"
    if _APPLICATION_ENDED.search(text):
        return f"{ENDED}: its master or its driver's Java is gone"
    if "[JAVA_GATEWAY_EXITED]" in text:
        return "Spark's Java did not start: see the output above; a --conf may be wrong"
    if found := _NO_MODULE.search(text):
        return f"the executors' Python has no module {found[1]}: {INSTALL}"
    if found := _NO_PYTHON.search(text):
        return (
            f"an executor has no {found[1]}: name the executors' Python by PYSPARK_PYTHON or "
            "--conf spark.pyspark.python=python3"
        )
    if found := _VERSIONS.search(text):
        return f"{found[1]} PYSPARK_PYTHON names the executors' Python"
    if raised := _PYTHON_ERROR.findall(text):
        name, message = next(((name, said) for name, said in raised if not name.startswith("Py")), raised[-1])
        return message.strip() if name.endswith(("StorageError", "DecodeError")) else f"{name}: {message.strip()}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if dead := _DEAD.search(text):
        return dead[0].strip()
    if found := _JAVA_ERROR.search(text):
        name = found[1].rpartition(".")[2]
        return f"{name}: {found[2].strip()}" if found[2] else name
    return lines[0] if lines else ""
