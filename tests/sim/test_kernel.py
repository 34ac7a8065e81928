"""Tests the simulation kernel: the order of events, time, blocked processes, links that are cut."""

from functools import partial
from random import Random

from kcore.sim.kernel.events import Kernel
from kcore.sim.kernel.network import Links, Network
from kcore.sim.kernel.simulated_process import PAUSED, Process


def test_events_come_in_the_order_of_their_times_and_else_as_they_were_queued() -> None:
    kernel, seen = Kernel(1, ""), list[tuple[str, int]]()
    for name, delay_us in (("later", 20), ("first", 10), ("second", 10), ("beyond", 31)):
        kernel.after_us(delay_us, lambda name=name: seen.append((name, kernel.now_us)))  # type: ignore[misc]
    assert not kernel.run_us(30)
    assert seen == [("first", 10), ("second", 10), ("later", 20)]
    assert kernel.now_us == 30, "time passes without events, too"
    assert not kernel.run_us(1) and seen[3:] == [("beyond", 31)]


def test_a_run_ends_as_soon_as_what_it_waits_for_holds() -> None:
    kernel, seen = Kernel(1, ""), list[int]()
    for delay_us in (10, 20, 30):
        kernel.after_us(delay_us, partial(seen.append, delay_us))
    assert kernel.run_us(100, lambda: len(seen) == 2)
    assert (kernel.now_us, seen) == (20, [10, 20])
    assert kernel.run_us(0, lambda: True) and kernel.now_us == 20


def test_a_queue_without_events_is_no_error() -> None:
    kernel = Kernel(1, "")
    kernel.take(10)
    assert (kernel.count, kernel.now_us) == (0, 0)


def test_events_of_a_paused_process_wait_and_keep_their_order() -> None:
    kernel, process, seen = Kernel(1, ""), Process(3), list[str]()
    process.blocked |= PAUSED
    kernel.after_us(10, partial(seen.append, "its first"), process)
    kernel.after_us(20, partial(seen.append, "its second"), process)
    kernel.after_us(20, partial(seen.append, "another's"))
    kernel.run_us(30)
    assert seen == ["another's"]
    kernel.unblock(process, PAUSED)
    kernel.run_us(0)
    assert seen == ["another's", "its first", "its second"] and kernel.now_us == 30


def test_what_happens_again_and_again_of_a_paused_process_waits_once() -> None:
    kernel, process, seen = Kernel(1, ""), Process(0), list[int]()
    kernel.every_us(10, lambda: seen.append(kernel.now_us), process)
    kernel.run_us(1_000)
    before = len(seen)
    assert 50 < before < 200
    process.blocked |= PAUSED
    kernel.run_us(1_000)
    assert len(seen) == before and len(process.inbox) == 1
    kernel.unblock(process, PAUSED)
    kernel.run_us(1_000)
    assert seen[before] == 2_000 and len(seen) > before + 50


def test_a_link_that_two_faults_cut_is_whole_when_both_are_over() -> None:
    network = Network(Links(100), 2, Random(1), jitter=0.0)
    assert network.delays_us(0, 1) == (100,)
    network.cut(0, 1)
    network.cut(0, 1)
    assert (network.delays_us(0, 1), network.delays_us(1, 0)) == ((), (100,))
    network.restore(0, 1)
    assert network.delays_us(0, 1) == ()
    network.restore(0, 1)
    assert network.delays_us(0, 1) == (100,)


def test_chance_adds_to_the_latency_no_more_than_the_jitter() -> None:
    network = Network(Links(100), 2, Random(1), jitter=0.5)
    delays = {delay for _ in range(1_000) for delay in network.delays_us(0, 1)}
    assert (min(delays), max(delays)) == (100, 149)
