import itertools
import subprocess
import sys
import time

import numpy as np
import pytest

from kcore.measure.workloads import memory
from kcore.measure.workloads.measure import SAMPLES_AT_LEAST, SAMPLES_AT_MOST, Operation, UnsteadyResultError, measure


def operation(run, **given) -> Operation:
    return Operation("test", run, lambda result: [result], 1, 0, **given)


def test_a_short_operation_is_sampled_as_often_as_allowed_and_a_long_one_as_often_as_needed():
    assert len(measure(operation(lambda: b"same")).samples_ns) == SAMPLES_AT_MOST
    assert len(measure(operation(lambda: time.sleep(0.08) or b"same")).samples_ns) == SAMPLES_AT_LEAST


def test_the_digest_is_of_the_result_alone():
    first, again = (measure(operation(lambda: np.arange(5))) for _ in range(2))
    other = measure(operation(lambda: np.arange(6)))
    assert first.digest == again.digest != other.digest


def test_a_result_that_changes_is_an_error():
    counter = itertools.count()
    with pytest.raises(UnsteadyResultError, match="test: the last run's result"):
        measure(operation(lambda: str(next(counter)).encode()))


def test_the_state_is_put_back_before_every_run():
    state = [0]

    def run() -> bytes:
        state[0] += 1
        return str(state[0]).encode()

    measured = measure(operation(run, before=lambda: state.__setitem__(0, 0)))
    assert len(measured.samples_ns) == SAMPLES_AT_MOST


def test_peak_memory_is_what_the_run_needed_at_most():
    def run() -> bytes:
        np.ones(32 << 20, np.uint8)
        return b""

    peak = memory.peak_growth(run)
    if not memory.CLEAR_REFS.exists():
        assert peak is None
        return
    assert peak is not None and 31 << 20 <= peak < 40 << 20  # Linux counts pages in batches.


def test_no_peak_is_reported_where_linux_has_none(monkeypatch, tmp_path):
    ran = []
    monkeypatch.setattr(memory, "CLEAR_REFS", tmp_path / "missing" / "clear_refs")
    assert memory.peak_growth(lambda: ran.append(1)) is None
    assert ran == [1]


def test_the_peak_of_a_process_is_its_own() -> None:
    """Not that of whoever started it."""
    large = bytearray(b"x") * (512 << 20)
    program = "from kcore.measure.workloads.memory import process_peak; print(process_peak())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert int(done.stdout) < len(large) <= memory.process_peak()


def test_a_warm_up_and_a_duration_are_kept_to_and_the_samples_thinned(monkeypatch: pytest.MonkeyPatch):
    now_ns = itertools.count(step=1_000_000)  # A millisecond between two looks at the clock.
    monkeypatch.setattr(time, "perf_counter_ns", lambda: next(now_ns))
    monkeypatch.setattr("kcore.measure.workloads.measure.MOST_KEPT", 100)
    runs = itertools.count()
    measured = measure(operation(lambda: b"%d" % (next(runs) * 0)), warm_up_s=0.05, duration_s=1.5)
    assert next(runs) == 2 + 50 + 1500  # The first, the weighed one; those of the warm-up; the samples.
    assert 50 <= len(measured.samples_ns) < 100
    assert len(measure(operation(lambda: b"same"), duration_s=0.0001).samples_ns) == SAMPLES_AT_LEAST
