"""What is done to a query before it is searched for, by the name that a job gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from worker.core.glossary import Glossary
from worker.errors import InvalidJob
from worker.settings import read_glossary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from worker.settings import Settings


def transforms(settings: Settings) -> Mapping[str, Callable[[str], str]]:
    """The transformations of a worker with these settings.

    Raises:
        SettingsError: the glossary can't be read.
    """
    glossary = Glossary(read_glossary(settings.hybrid.glossary))
    return {"none": str, "glossary": glossary.expand, "llm": _no_model}


def _no_model(_: str) -> str:
    raise InvalidJob("expected none or glossary: the settings name no language model", "transform")
