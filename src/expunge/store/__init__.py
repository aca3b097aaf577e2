"""One content-addressed store for all long work: a result appears whole or not at all."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge.store._entry import Entry as Entry
    from expunge.store._stage import Stage as Stage
    from expunge.store._store import Locked as Locked
    from expunge.store._store import Store as Store
if TYPE_CHECKING:  # for other packages of expunge
    from expunge.store._stage import canonical
    from expunge.store._store import file_lock
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
