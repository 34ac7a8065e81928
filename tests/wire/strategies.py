"""Random messages of any plan, for hypothesis."""

from typing import Any

from hypothesis import strategies as st

from kcore.schema.kinds import INTEGER_RANGES, Kind
from kcore.types import Uuid
from kcore.wire.plan import Step, StructPlan

# A surrogate alone has no UTF-8.
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
PLAIN = {
    Kind.BOOL: st.booleans(),
    Kind.FLOAT64: st.floats(allow_nan=False),
    Kind.UUID: st.binary(min_size=16, max_size=16).map(Uuid),
    Kind.STRING: TEXT | st.just("long" * 50),
    Kind.BYTES: st.binary(max_size=8),
    Kind.RECORDS: st.binary(max_size=8),
}


def messages(plan: StructPlan) -> st.SearchStrategy[Any]:
    fields = {field.field.name: values(field.step) for field in (*plan.in_line, *plan.tagged)}
    if plan.flexible:
        fields["unknown_tagged_fields"] = unknown_fields({field.tag for field in plan.tagged})
    return st.builds(plan.struct, **fields)


def unknown_fields(known: set[int | None]) -> st.SearchStrategy[Any]:
    tags = (st.integers(0, 300) | st.integers(0, 2**31 - 1)).filter(lambda tag: tag not in known)
    fields = st.dictionaries(tags, st.binary(max_size=5), max_size=3)
    return fields.map(lambda chosen: tuple(sorted(chosen.items())))


def values(step: Step) -> st.SearchStrategy[Any]:
    if step.struct is not None:
        some = messages(step.struct)
    elif step.element is not None:
        some = st.lists(values(step.element), max_size=3)
    elif step.kind in INTEGER_RANGES:
        lowest, highest = INTEGER_RANGES[step.kind]
        some = st.integers(lowest, highest) | st.sampled_from((lowest, highest, 0, 1))
    else:
        some = PLAIN[step.kind]
    return st.none() | some if step.nullable else some
