"""The host of an ACL as a block of addresses in CIDR notation, such as 10.0.0.0/8 or 2001:db8::/32.

Source: CidrUtils, SubnetUtils and SubnetUtils6, java.net.InetAddress.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final, NamedTuple

_IPV4: Final = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})", re.ASCII)
_IPV4_BLOCK: Final = re.compile(rf"{_IPV4.pattern}/(\d{{1,2}})", re.ASCII)
_PREFIX: Final = re.compile(r"[+-]?[0-9]+")
_LEADING_ZEROS: Final = re.compile(r"(?<![0-9a-fA-F])0+(?=[0-9a-fA-F])")
_SCOPE: Final = re.compile(r"%[0-9]+$")
_IPV6_BITS: Final = 128


class Block(NamedTuple):
    """The first and the last address of a block, as numbers."""

    first: int
    last: int
    is_ipv6: bool


def is_block(host: str) -> bool:
    """True if the host of an ACL stands for a block of addresses."""
    return "/" in host


def block_of(host: str) -> Block:
    """The block that the host stands for; ValueError with Kafka's message for invalid notation."""
    return _ipv6_block(host) if ":" in host else _ipv4_block(host)


@lru_cache(maxsize=4096)
def is_in_block(address: str, host: str) -> bool:
    """True if the host stands for a block with this address (CidrUtils.isInRange).

    `address`: as InetAddress.getHostAddress writes it. No IPv4 block has the address 0.0.0.0.
    """
    try:
        block = block_of(host)
        number = _ipv6(address.partition("%")[0]) if block.is_ipv6 else _number(_matched(_IPV4, address), 255)
    except ValueError:
        return False
    return block.first <= number <= block.last and (block.is_ipv6 or number != 0)


def _ipv4_block(host: str) -> Block:
    *octets, prefix = _matched(_IPV4_BLOCK, host)
    network = _number(octets, 255)
    return _block(network, _in_range(int(prefix), 32), 32, is_ipv6=False)


def _matched(pattern: re.Pattern[str], text: str) -> tuple[str, ...]:
    if (found := pattern.fullmatch(text)) is None:
        raise ValueError(f"Could not parse [{text}]")
    return found.groups()


def _number(octets: Iterable[str], most: int) -> int:
    return int(IPv4Address(bytes(_in_range(int(each), most) for each in octets)))


def _in_range(value: int, most: int) -> int:
    if value > most:
        raise ValueError(f"Value [{value}] not in range [0,{most}]")
    return value


def _ipv6_block(host: str) -> Block:
    address, _, prefix = host.partition("/")
    if not _PREFIX.fullmatch(prefix) or not -(2**31) <= int(prefix) < 2**31:
        raise ValueError(f"Could not parse [{host}] - invalid prefix length")
    if not 0 <= int(prefix) <= _IPV6_BITS:
        raise ValueError(f"Could not parse [{host}] - prefix length must be between 0 and {_IPV6_BITS}")
    return _block(_ipv6(address), int(prefix), _IPV6_BITS, is_ipv6=True)


def _ipv6(text: str) -> int:
    """The number of an IPv6 address, which may have brackets, a numeric scope, and groups with leading zeros."""
    inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        found: IPv6Address | None = IPv6Address(_LEADING_ZEROS.sub("", _SCOPE.sub("", inner)))
    except AddressValueError:
        found = None
    if found is None or found.scope_id is not None:  # Java knows other scopes if the machine has such an interface.
        raise ValueError(f"Could not parse [{text}]")
    if found.ipv4_mapped is not None:
        raise ValueError(f"Could not parse [{text}] - not an IPv6 address")
    return int(found)


def _block(address: int, prefix: int, bits: int, *, is_ipv6: bool) -> Block:
    rest = (1 << bits - prefix) - 1
    return Block(address & ~rest, address | rest, is_ipv6)
