"""Errors of Spark become one sentence; texts as Spark 4.3 and py4j give them, shortened."""

import pytest

from kcore.spark.failures import is_spark_at_fault, sentence

WORKER = "\n  An exception was thrown from the Python worker. Please see the stack trace below.\nTraceback:\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times, most recent failure: Lost task 0.0 "
            "in stage 0.0 (TID 7) (10.0.0.5 executor 3): ExecutorLostFailure (executor 3 exited caused by one of the "
            "running tasks) Reason: Remote RPC client disassociated. Likely due to containers exceeding thresholds.\n"
            "Driver stacktrace:",
            "executor lost: 3 on 10.0.0.5: Remote RPC client disassociated",
        ),
        ("Job 3 cancelled because SparkContext was shut down", "Spark ended the application"),
        (
            WORKER + "ModuleNotFoundError: No module named 'kcore'\n\n\tat org",
            "the executors' Python has no module kcore",
        ),
        ('java.io.IOException: Cannot run program "python9": error=2', "an executor has no python9"),
        (WORKER + "kcore.errors.StorageError: /a/t-0: no segment there\n", "/a/t-0: no segment there"),
        (WORKER + "ValueError: broken on purpose\n", "ValueError: broken on purpose"),
        ("[JAVA_GATEWAY_EXITED] Java gateway process exited", "Spark's Java did not start"),
        (
            "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
            ": java.nio.file.NoSuchFileException: /a/none.tar\n\tat java.base/sun.nio.fs.UnixException",
            "NoSuchFileException: /a/none.tar",
        ),
        ("An error occurred while calling o1.a.\n: java.lang.NullPointerException\n\tat x", "NullPointerException"),
        ("something else\n\tat org.apache", "something else"),
    ],
)
def test_a_failure_is_one_sentence_with_its_cause(text: str, said: str) -> None:
    found = sentence(RuntimeError(text))
    assert found.startswith(said) and "\n" not in found


def test_a_lost_executor_or_master_is_not_the_work_s_fault() -> None:
    assert is_spark_at_fault(sentence(RuntimeError("ExecutorLostFailure (executor 1 exited unrelated) Reason: gone")))
    assert is_spark_at_fault(sentence(RuntimeError("Cannot call methods on a stopped SparkContext.")))
    assert not is_spark_at_fault(sentence(RuntimeError("ValueError: x")))
