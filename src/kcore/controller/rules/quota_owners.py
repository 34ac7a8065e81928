"""Selects the quota for a request: that of the user's client, of the user, of the client, or a default (KIP-55).

Source: ClientQuotaManager (DefaultQuotaCallback) of 3.9.1 and 4.3.1.
"""

from collections.abc import Mapping
from typing import TypeAlias

from kcore.controller.rules.quotas import CLIENT_ID, USER
from kcore.metadata.image.image_state import QuotaEntity

ClientQuotas: TypeAlias = Mapping[QuotaEntity, Mapping[str, float]]
Owner: TypeAlias = tuple[str, str]
"""The requests that share a quota: those of a user and client id, or of only one of them; the other is empty."""


def owner_of(quotas: ClientQuotas, key: str, user: str, client_id: str) -> Owner:
    """The owner of the quota `key`, from the first of Kafka's levels that has a quota of that name."""
    levels: tuple[tuple[QuotaEntity, Owner], ...] = (
        (_entity(user, client_id), (user, client_id)),
        (_entity(user, None), (user, client_id)),
        (((USER, user),), (user, "")),
        (_entity(None, client_id), (user, client_id)),
        (_entity(None, None), (user, client_id)),
        (((USER, None),), (user, "")),
    )
    return next((owner for entity, owner in levels if key in quotas.get(entity, {})), ("", client_id))


def limit_of(quotas: ClientQuotas, key: str, owner: Owner) -> float | None:
    """The value of the quota `key`; None if the owner has no limit."""
    user, client_id = owner
    if user and client_id:
        levels = [_entity(one, other) for one in (user, None) for other in (client_id, None)]
    elif user:
        levels = [((USER, user),), ((USER, None),)]
    elif client_id:
        levels = [((CLIENT_ID, client_id),), ((CLIENT_ID, None),)]
    else:
        levels = []
    return next((quotas[each][key] for each in levels if key in quotas.get(each, {})), None)


def _entity(user: str | None, client_id: str | None) -> QuotaEntity:
    return (CLIENT_ID, client_id), (USER, user)
