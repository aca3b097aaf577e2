"""One content-addressed store for all long work: a result appears whole or not at all."""

from expunge.store.entry import Entry as Entry
from expunge.store.locks import Locked as Locked
from expunge.store.stage import Job as Job
from expunge.store.stage import Keyed as Keyed
from expunge.store.stage import Stage as Stage
from expunge.store.store import Store as Store
