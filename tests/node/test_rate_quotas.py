"""Rate quotas: the entity that each quota applies to, and the throttle time of a client above its quota."""

from typing import Any

import pytest

import cases
from kcore.metadata.image.image_state import QuotaEntity
from kcore.node.rate_quotas import (
    MOST_RATES,
    REQUEST_PERCENTAGE,
    RateQuotas,
    limit_of,
    owner_of,
    percentage,
    request_quotas,
)
from kcore.sampled_rate import MOST_MS, SampledRate

Quotas = dict[QuotaEntity, dict[str, float]]
DEFAULT = None
RECORDED = cases.load("request_quotas_4.3.1")  # Printed by oracle/RequestQuotaFacts.java.


def entity(user: str | None, client: str | None) -> QuotaEntity:
    """As a record's; "" is the default, None is not part of it."""
    parts = {"client-id": client, "user": user}
    return tuple((kind, name or DEFAULT) for kind, name in parts.items() if name is not None)


def throttled(story: dict[str, Any]) -> list[int | None]:
    """kcore's decision at each step of a story with a decision of Kafka's."""
    rates, quotas = request_quotas(story["windows"], story["seconds"] * 1000), {}
    found: list[int | None] = []
    for kind, *step in story["steps"]:
        if kind == "quota":
            user, client, value = step
            quotas.pop(entity(user, client), None)
            if value is not None:
                quotas[entity(user, client)] = {REQUEST_PERCENTAGE: value}
        else:
            now_ms, user, client, used, wanted = step
            is_asked = wanted is not None
            said = rates.record(quotas, user, client, used, now_ms, checks=is_asked)
            found.append(said if is_asked else None)
    return found


@pytest.mark.recorded
@pytest.mark.parametrize("story", RECORDED, ids=range(len(RECORDED)))
def test_clients_are_throttled_as_kafka_throttles_them(story: dict[str, Any]) -> None:
    assert throttled(story) == [step[-1] for step in story["steps"] if step[0] == "used"]


@pytest.mark.recorded
def test_the_recorded_stories_have_all_kinds_of_throttling() -> None:
    said = [step[-1] for story in RECORDED for step in story["steps"] if step[0] == "used" and step[-1] is not None]
    assert {0, 1000, 2000} <= {*said} and sum(0 < each < 1000 for each in said) > 100


def test_a_share_of_the_time_is_what_ten_seconds_make_of_it() -> None:
    """Ten full windows are taken for granted: of 5 % there are 500 ms, however soon they are used."""
    rates = request_quotas()
    quotas = {entity("a", None): {REQUEST_PERCENTAGE: 5.0}}
    assert percentage(500_000_000) == 50.0
    assert rates.record(quotas, "a", "x", 50.0, 0) == 0
    assert rates.record(quotas, "a", "y", 0.5, 0) == 100, "another client of that user has the same quota"
    assert rates.record(quotas, "a", "x", 50.0, 0) == 1000, "no longer than a window"
    assert rates.record(quotas, "b", "x", 50.0, 0) == 0
    assert rates.record(quotas, "a", "x", 0.0, 11_000) == 0, "what was used eleven windows ago is forgotten"


def test_what_is_only_counted_throttles_the_next_request() -> None:
    rates, quotas = request_quotas(), {entity(None, "x"): {REQUEST_PERCENTAGE: 1.0}}
    assert rates.record(quotas, "a", "x", 20.0, 0, checks=False) == 0
    assert rates.record(quotas, "a", "x", 0.0, 0) == 1000


def test_who_has_no_quota_any_more_is_free() -> None:
    rates, quotas = request_quotas(), {entity("a", None): {REQUEST_PERCENTAGE: 1.0}}
    assert rates.record(quotas, "a", "x", 500.0, 0) == 1000
    assert rates.record({}, "a", "x", 500.0, 1) == 0


def test_other_quotas_are_not_bounded_by_a_window() -> None:
    rates = RateQuotas("producer_byte_rate")
    quotas = {entity("a", None): {"producer_byte_rate": 100.0, REQUEST_PERCENTAGE: 0.001}}
    assert rates.record(quotas, "a", None, 10_000.0, 0) == 90_000


@pytest.mark.parametrize(
    ("given", "owner", "limit"),
    [
        ([("a", "x"), ("a", ""), ("a", None)], ("a", "x"), 0.0),
        ([("a", ""), ("a", None), ("", "x")], ("a", "x"), 0.0),
        ([("a", None), ("", "x"), ("", "")], ("a", ""), 0.0),
        ([("", "x"), ("", ""), ("", None)], ("a", "x"), 0.0),
        ([("", ""), ("", None), (None, "x")], ("a", "x"), 0.0),
        ([("", None), (None, "x"), (None, "")], ("a", ""), 0.0),
        ([(None, "x"), (None, "")], ("", "x"), 0.0),
        ([(None, "")], ("", "x"), 0.0),
        ([("b", None), (None, "y"), ("b", "x"), ("a", "y")], ("", "x"), None),
    ],
)
def test_the_first_level_with_a_quota_counts(
    given: list[tuple[str | None, str | None]], owner: tuple[str, str], limit: float | None
) -> None:
    quotas: Quotas = {entity(*each): {"q": float(place)} for place, each in enumerate(given)}
    quotas[entity("a", "x")] = quotas.get(entity("a", "x"), {}) | {"another": 9.0}
    assert owner_of(quotas, "q", "a", "x") == owner
    assert limit_of(quotas, "q", owner) == limit


def test_clients_are_forgotten_in_the_end() -> None:
    rates, quotas = request_quotas(), {entity(None, ""): {REQUEST_PERCENTAGE: 1.0}}
    for number in range(MOST_RATES + 10):
        rates.record(quotas, "a", f"c{number}", 1.0, 0)
    assert len(rates._rates) == MOST_RATES and ("", "c0") not in rates._rates


def test_a_rate_over_eleven_windows() -> None:
    """Rate and QuotaUtils: ten windows count from the first value on, however young it is."""
    rate = SampledRate()

    def wait_ms(now_ms: int, value: float = 1.0) -> int:
        rate.record(value, now_ms)
        return rate.throttle_time_ms(2, now_ms)

    assert [wait_ms(0) for _ in range(20)] == [0] * 20
    assert wait_ms(0) == 500
    assert wait_ms(500) == 500, "one more, after half a second"
    assert wait_ms(900, -2.0) == 0, "the two that were taken back do not count"
    assert wait_ms(11_500, 3.0) == 0, "23 in 11.5 s: the first window overlaps what is looked at"
    assert wait_ms(12_000, 3.0) == 0, "only 6 are left"


@pytest.mark.parametrize(
    ("limit", "expected"), [(0.0, MOST_MS), (float("nan"), 0), (float("inf"), 0), (1e-300, MOST_MS)]
)
def test_no_value_of_a_quota_makes_a_request_fail(limit: float, expected: int) -> None:
    rate = SampledRate()
    rate.record(1.0, 0)
    assert rate.throttle_time_ms(limit, 0) == expected


def test_a_burst_of_bytes_delays_as_in_kafkas_own_test() -> None:
    """The numbers of ClientQuotaManagerTest.testQuotaViolation: 500 bytes a second for all client ids."""
    rates, quotas, now_ms = RateQuotas("producer_byte_rate"), {entity(None, ""): {"producer_byte_rate": 500.0}}, 0
    for _ in range(10):
        assert rates.record(quotas, "ANONYMOUS", "unknown", 400.0, now_ms) == 0
        now_ms += 1_000
    # 400 * 10 + 2,300 bytes in 10.5 seconds are 600 a second: (600 - 500) / 500 * 10.5 seconds are too few.
    now_ms += 500
    assert rates.record(quotas, "ANONYMOUS", "unknown", 2_300.0, now_ms) == 2_100
    now_ms += 2_100
    for _ in range(10):
        rates.record(quotas, "ANONYMOUS", "unknown", 400.0, now_ms)
        now_ms += 1_000
    assert rates.record(quotas, "ANONYMOUS", "unknown", 0.0, now_ms) == 0, "the burst is out of the windows"


def test_the_most_that_is_not_always_throttled_is_what_fits_in_the_full_windows() -> None:
    """ClientQuotaManagerTest.testGetMaxValueInQuotaWindowWithNonDefaultQuotaWindow."""
    rates, quotas = RateQuotas("consumer_byte_rate", windows=4), {entity("", None): {"consumer_byte_rate": 10.0}}
    assert rates.most_value({}, "userA", "client1") == float("inf")
    assert rates.most_value(quotas, "userA", "client1") == 30
    assert rates.record(quotas, "userA", "client1", 30.0, 0) == 0
    assert rates.record(quotas, "userB", "client1", 31.0, 0) > 0
    assert RateQuotas("consumer_byte_rate", windows=4, window_ms=5_000).most_value(quotas, "userA", None) == 150


def test_what_is_taken_back_does_not_count() -> None:
    rates, quotas = RateQuotas("consumer_byte_rate"), {entity("a", None): {"consumer_byte_rate": 10.0}}
    assert rates.record(quotas, "a", "x", 200.0, 0) == 10_000
    assert rates.record(quotas, "a", "x", -200.0, 0, checks=False) == 0
    assert rates.record(quotas, "a", "x", 100.0, 0) == 0
    assert (rates.counted, rates.throttled, rates.throttled_ms) == (100.0, 1, 10_000)


def test_rates_are_shown_of_the_last_clients() -> None:
    rates, quotas = RateQuotas("producer_byte_rate"), {entity(None, ""): {"producer_byte_rate": 10.0}}
    for number in (1, 2, 3, 1):
        rates.record(quotas, "a", f"c{number}", 100.0 * number, 0)
    assert rates.rates(0, most=2) == {("", "c3"): 30.0, ("", "c1"): 20.0}
    assert rates.rates(100_000, most=1) == {("", "c1"): 0.0}
