"""What a campaign should have seen."""

from collections.abc import Collection


def never_seen(seen: Collection[str]) -> list[str]:
    """Of what can happen."""
    return []
