"""The corpora of one process, and who may ask them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from worker.adapters.search import Corpus
from worker.errors import InvalidJob, NotAuthorised
from worker.model import Principal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from worker.adapters.postgres import Database
    from worker.settings import Settings

    Identify = Callable[[], Principal | None]


class Corpora:
    """The corpora that the settings name.

    Args:
        settings: the worker's settings.
        database: this process's connections.
    """

    def __init__(self, settings: Settings, database: Database) -> None:
        self.database = database
        self._default = settings.default_corpus
        self._nobody = Principal(settings=tuple((name, "") for name in settings.principal.settings.values()))
        self._corpora = {
            name: Corpus(name, corpus, settings.search, database.types[name])
            for name, corpus in settings.corpora.items()
        }

    def get(self, name: str | None, path: str = "corpus") -> Corpus:
        """A corpus by its name; the first one without.

        Raises:
            InvalidJob: the settings name no such corpus.
        """
        wanted = self._default if name is None else name
        if wanted not in self._corpora:
            raise InvalidJob(f"expected one of {', '.join(self._corpora)}", path)
        return self._corpora[wanted]

    def find(self, name: str | None) -> Corpus | None:
        """The same, or None for a name that the settings do not have."""
        return self._corpora.get(self._default if name is None else name)

    def all(self) -> Iterable[Corpus]:
        """Every corpus, in the order of the settings."""
        return self._corpora.values()

    def asker(self, corpus: Corpus, identify: Identify) -> Principal:
        """Who asks a corpus: nobody is enough for a public one, and for no other.

        Raises:
            NotAuthorised: nobody that this worker believes is asking, and the corpus is not public.
        """
        try:
            asker = identify()
        except NotAuthorised:
            if not corpus.settings.public:
                raise
            asker = None
        if asker is None and not corpus.settings.public:
            raise NotAuthorised(
                f"the corpus {corpus.name} is not public: send a principal_token, "
                "or a principal where the worker trusts its queue"
            )
        return asker or self._nobody

    def asker_of_all(self, corpora: Sequence[Corpus], identify: Identify) -> Principal:
        """Who asks several corpora at once; see `asker`."""
        askers = [self.asker(corpus, identify) for corpus in corpora]
        return next((asker for asker in askers if asker is not self._nobody), self._nobody)
