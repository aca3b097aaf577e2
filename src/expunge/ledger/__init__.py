"""The ledger of a model's deletion requests: their chain, seals, keys, signatures and purges."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge.ledger._ledger import Ledger as Ledger
    from expunge.ledger._ledger import LedgerEntry as LedgerEntry
    from expunge.ledger._signing_keys import SigningKey as SigningKey
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
