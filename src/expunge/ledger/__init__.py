"""The ledger of a model's deletion requests: their chain, seals, keys, signatures and purges."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge.ledger._ledger import Ledger as Ledger
    from expunge.ledger._ledger import LedgerEntry as LedgerEntry
    from expunge.ledger._signatures import SigningKey as SigningKey
if TYPE_CHECKING:  # for other packages of expunge
    from expunge.ledger._id_key import (
        ForgottenRecords,
        IdKey,
        create_id_key,
        digest_requested,
        find_id_key,
        require_id_key,
    )
    from expunge.ledger._ledger import (
        EVIDENCE,
        FORGOTTEN,
        PURGED,
        SEAL,
        WEIGHTS,
        digest_config,
        digest_of,
        exclusive_access,
    )
    from expunge.ledger._purge import find_remnants, purge, remnants_elsewhere, require_signer
    from expunge.ledger._seal import (
        DISCARDED,
        JOB,
        LETTERS,
        MODEL_CARD,
        PAGE,
        files_in,
        head_problem,
        require_all,
        write_ledger_head,
        write_seal,
    )
    from expunge.ledger._signatures import (
        PASSWORD_VARIABLE,
        PublicKey,
        is_encrypted,
        sign_bundle,
        sign_head,
    )
    from expunge.ledger._verify_ledger import Verification, verify_ledger
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
