"""Suggestions for errors about an unknown name: the closest known names."""

from collections.abc import Iterable
from typing import Final

_ABOUT: Final = 0.08  # Names are left out if their difflib ratio is this much or more below the best.
_MOST_CHARACTERS: Final = 200  # The part of a name that is compared.


def did_you_mean(name: object, known: Iterable[str], otherwise: str = "") -> str:
    """The end of an error: `; did you mean 'fetch'?` with the `known` names that are closest, ignoring case.

    If no name is close, it is `; ` and `otherwise`, or nothing if `otherwise` is empty.
    """
    from difflib import SequenceMatcher, get_close_matches  # Imported only for an error: it takes 5 ms.

    folded = str(name).casefold()[:_MOST_CHARACTERS]
    by_folded = {each.casefold(): each for each in known}
    close = get_close_matches(folded, by_folded)
    if close:
        ratios = [SequenceMatcher(None, each, folded).ratio() for each in close]
        named = [repr(by_folded[each]) for each, ratio in zip(close, ratios, strict=True) if ratio > ratios[0] - _ABOUT]
        return f"; did you mean {' or '.join(named)}?"
    return f"; {otherwise}" if otherwise else ""
