"""State graphs of AssignReplicasToDirs: by the Python actions, and as TLC writes them with `-dump dot,actionlabels`."""

import re
from collections.abc import Iterator
from itertools import chain, combinations, product
from pathlib import Path
from typing import Any, Final, TypeAlias

from specifications.directories import ACTIONS, LOST, NONE, OTHERS, THIS, UNASSIGNED, Message, State

Edge: TypeAlias = tuple[State, str, State]  # A state, the name of an action, the next state.
NODE: Final = re.compile(r'^(-?\d+) \[label="((?:[^"\\]|\\.)*)"')
EDGE: Final = re.compile(r'^(-?\d+) -> (-?\d+) \[label="(\w+)"')
VARIABLE: Final = re.compile(r"/\\ (\w+) = (.*?)(?=\n/\\ |\Z)", re.DOTALL)
TOKEN: Final = re.compile(r'"[^"]*"|\w+|\|->|<<|>>|[{}\[\],]')
LEADERS: Final = (THIS, OTHERS, NONE)


def subsets(values: Any) -> list[frozenset[Any]]:
    """All subsets."""
    items = sorted(values)
    every = chain.from_iterable(combinations(items, size) for size in range(len(items) + 1))
    return [frozenset(each) for each in every]


def parameters(state: State, dirs: frozenset[str], spares: frozenset[str]) -> dict[str, Any]:
    """The parameters of each action in the specification's Next; actions without parameters are not listed."""
    every = dirs | spares
    members = subsets({THIS, OTHERS})
    elections = [*product(members, LEADERS)]
    one = [(each,) for each in LEADERS]
    assignments = [*every, LOST, UNASSIGNED, NONE]
    directories = [(each,) for each in every]
    return {
        **dict.fromkeys(("Elect", "Fence", "Register"), elections),
        "DirectoriesOffline": [*product(subsets(every), LEADERS)],
        "RegisterFormer": [(directories, *each) for directories in subsets(every) for each in elections],
        "Assign": [(k, *each) for k in range(1, len(state.net) + 1) for each in elections],
        "Refuse": [*product(range(1, len(state.net) + 1), ("refused", "gone"))],
        "RemoveReplica": one,
        "AddReplica": [(directory, *each) for directory in assignments for each in elections],
        "Start": [*product((False, True), subsets(spares))],
        **dict.fromkeys(("DirectoryFails", "Create", "Begin"), directories),
        "Publish": [(k,) for k in range(1, len(state.feed) + 1)],
    }


def steps(state: State, dirs: frozenset[str], spares: frozenset[str]) -> Iterator[tuple[str, State]]:
    """All steps from the state: the action's name, and the next state."""
    given = parameters(state, dirs, spares)
    for name, action in ACTIONS.items():
        for each in given.get(name, [()]):
            after = action(state, *each)
            if after is not None:
                yield name, after


def enumerated(first: State, dirs: frozenset[str], spares: frozenset[str]) -> set[Edge]:
    """All edges of the graph from the first state."""
    edges, known, waiting = set[Edge](), {first}, [first]
    while waiting:
        state = waiting.pop()
        for name, after in steps(state, dirs, spares):
            edges.add((state, name, after))
            if after not in known:
                known.add(after)
                waiting.append(after)
    return edges


# TLC's graph.


def read_dot(path: Path, *, in_order: bool) -> set[Edge]:
    """The edges of a graph that TLC has written; ValueError if a line of a state is unreadable."""
    states, lines = dict[str, State](), path.read_text("utf-8").splitlines()
    for line in lines:
        if node := NODE.match(line):
            states[node[1]] = _state(node[2], in_order=in_order)
    return {(states[edge[1]], edge[3], states[edge[2]]) for line in lines if (edge := EDGE.match(line))}


def _state(label: str, *, in_order: bool) -> State:
    text = re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], label)
    values = {_snake(name): _value(written) for name, written in VARIABLE.findall(text)}
    return State(**values, in_order=in_order)


def _snake(name: str) -> str:
    return re.sub(r"([A-Z])", lambda found: f"_{found[1].lower()}", name)


def _value(written: str) -> Any:
    """A value of TLA+: a string, a number, a boolean, a set, a sequence, or a record (a Message)."""
    tokens = TOKEN.findall(written)
    value, end = _parsed(tokens, 0)
    if end != len(tokens):
        raise ValueError(f"{written!r} is not one value")
    return value


def _parsed(tokens: list[str], at: int) -> tuple[Any, int]:
    token = tokens[at]
    if token in ("{", "<<"):
        close, items = {"{": "}", "<<": ">>"}[token], []
        at += 1
        while tokens[at] != close:
            item, at = _parsed(tokens, at)
            items.append(item)
            at += tokens[at] == ","
        return (frozenset(items) if token == "{" else tuple(items)), at + 1
    if token == "[":
        fields: dict[str, Any] = {}
        at += 1
        while tokens[at] != "]":
            fields[tokens[at]], at = _parsed(tokens, at + 2)
            at += tokens[at] == ","
        return Message(**fields), at + 1
    if token.startswith('"'):
        return token[1:-1], at + 1
    return {"TRUE": True, "FALSE": False}.get(token, token) if token in ("TRUE", "FALSE") else int(token), at + 1
