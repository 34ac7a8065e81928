"""Where kcore always decides about ACLs differently from Kafka. docs/guides/departures.md lists these rows.

The departures that have a switch are in `controller/kraft/departures.py`.
"""

from typing import Final, NamedTuple


class AclDeparture(NamedTuple):
    """One situation, and what Kafka and kcore do in it."""

    where: str
    kafka: str
    kcore: str


_NAMES: Final = "a name that begins with `*` or sorts before it"

ACL_DEPARTURES: Final[tuple[AclDeparture, ...]] = (
    AclDeparture(
        "StandardAuthorizer",
        f"may miss the ACLs of the resource `*` when it decides about {_NAMES}: what they deny is then allowed, "
        "what they allow denied",
        "sees them",
    ),
    AclDeparture("StandardAuthorizer", f"may never return from a decision about {_NAMES}", "decides by the same rule"),
    AclDeparture("StandardAuthorizer", f"may throw when it decides about {_NAMES}", "decides by the same rule"),
    AclDeparture(
        "StandardAuthorizer, by resource type",
        "does not see what an entry for the empty prefix denies, when it decides whether a principal may do something "
        "on any resource of a type",
        "sees it",
    ),
    AclDeparture(
        "StandardAuthorizer of a controller whose log is not read yet",
        "answers UNKNOWN_SERVER_ERROR to all but super users; unknown users of SCRAM get SASL_AUTHENTICATION_FAILED",
        "closes the connection, so that the client comes again",
    ),
    AclDeparture(
        "refusals of KRaft controllers",
        "show an object of the server's own in place of the principal, with an address in its memory",
        "name the principal",
    ),
    AclDeparture(
        "AclAuthorizer, CreateAcls",
        "answers UNKNOWN_SERVER_ERROR, or nothing, where an ACL has an unknown code, a name that no znode can have, or "
        "a principal without a type",
        "answers INVALID_REQUEST to that ACL, and creates the others",
    ),
    AclDeparture(
        "AclAuthorizer, znodes",
        "takes a resource whose znode holds no JSON for one without ACLs",
        "denies it to all but super users",
    ),
)
