"""Fencings by a target whose sessions ended although the brokers ran."""

from kcore.measure.storm.replay.events import Event, MissedHeartbeats, Unfenced
from kcore.measure.storm.replay.player import Played
from kcore.measure.storm.replay.run_replay import false_fencings
from kcore.measure.storm.replay.schedule import Planned


def played(cause: MissedHeartbeats | Unfenced) -> Played:
    return Played(Planned(0, Event(0, 0, cause), cause, {}, frozenset()), 0)


def test_fencings_that_no_event_led_to_are_counted_by_broker() -> None:
    log = [Event(0, at, MissedHeartbeats(broker_id)) for at, broker_id in enumerate((1, 1, 2, 3))]
    done = [played(MissedHeartbeats(1)), played(MissedHeartbeats(3)), played(Unfenced(2))]
    assert false_fencings(done, log) == {1: 1, 2: 1}
    assert false_fencings([*done, played(MissedHeartbeats(2)), played(MissedHeartbeats(1))], log) == {}
