"""Forgetting exactly the images that somebody listed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from expunge._errors import InvalidInput
from expunge.data._id_file import Id, as_number

if TYPE_CHECKING:
    from expunge.data._images import ImageSet
    from expunge.data._selection import Selection


@dataclass(frozen=True)
class IdsForget:
    """Exactly the images listed: indices into the training part, or image names.

    A number is an index, unless images have numbers for names: then every id is a name, so that
    an image that is not there any more is never taken for another one. A name that several images
    share stands for all of them. ``path`` is the file the ids came from, if any.
    """

    ids: tuple[Id, ...]
    path: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", tuple(as_number(entry) for entry in self.ids))
        object.__setattr__(self, "path", str(self.path))
        if not self.ids:
            raise InvalidInput("`ids` should name one image or more. (got none)")
        twice = [entry for entry, count in Counter(self.ids).items() if count > 1]
        if twice:
            raise InvalidInput(
                f"Every id should be listed once. (got {_some(twice)} more than once"
                f"{' in ' + self.path if self.path else ''})"
            )

    def __str__(self) -> str:
        return f"ids:{self.path}" if self.path else f"ids:<{len(self.ids)} given>"

    def pick(self, train: ImageSet, seed: int) -> Selection:
        from expunge.data._selection import select

        places: dict[str, list[int]] = {}
        for index, name in enumerate(train.names or ()):
            places.setdefault(name, []).append(index)
        numbered = any(name.isdecimal() for name in places)
        chosen: set[int] = set()
        unknown: list[Id] = []
        for entry in self.ids:
            if str(entry) in places:
                chosen.update(places[str(entry)])
            elif isinstance(entry, int) and not numbered and 0 <= entry < len(train):
                chosen.add(entry)
            else:
                unknown.append(entry)
        if unknown:
            rule = f"indices in 0..{len(train) - 1}" + (" or image names" if places else "")
            raise InvalidInput(
                f"Ids should be {'names of training images' if numbered else rule}. "
                f"(got {_some(unknown)}: {len(unknown)} of {len(self.ids)} unknown) "
                "An image held out for validation or test has nothing to be forgotten."
            )
        return select(train, sorted(chosen))


def _some(values: list[Id]) -> str:
    shown = ", ".join(repr(value) for value in values[:10])
    return shown + (f" and {len(values) - 10} more" if len(values) > 10 else "")
