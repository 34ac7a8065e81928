"""What to add to an error about an unknown name: the known names that are closest to it."""

from collections.abc import Iterable


def did_you_mean(name: object, known: Iterable[str], otherwise: str = "") -> str:
    """`; did you mean 'fetch'?` with up to three of the `known` names, whatever their case.

    Where none is close: `; ` and `otherwise`, or nothing if that is empty.
    """
    from difflib import get_close_matches  # 5 ms that only an error has to take.

    by_folded = {each.casefold(): each for each in known}
    close = get_close_matches(str(name).casefold()[:200], by_folded)
    if close:
        return f"; did you mean {' or '.join(repr(by_folded[each]) for each in close)}?"
    return f"; {otherwise}" if otherwise else ""
