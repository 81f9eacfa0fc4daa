"""Every setting is described beside its field, and shown with an example in the files of config/."""

from __future__ import annotations

import inspect
import re
import tomllib
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from tests.loops import each

import worker.settings
from reference_pages import settings
from worker.settings import Settings
from worker.settings.base import Section, config_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

WHOLE_SECTIONS = ("search", "pool", "standby", "worker", "limits", "metrics", "verify", "log")
"""Those that the shipped file shows whole, so that an operator sees what there is."""

SECRET = re.compile(r"[A-Z_]+|token_keys|.*\.api_key|cache\.url")
"""Those that belong in the environment only."""

WRITTEN_BY_A_COMMAND = ("calibration.",)

SHOWN = "\n".join(file.read_text(encoding="utf-8") for file in sorted(config_folder().glob("*.toml")))
ALL = [setting for table in settings.tables() for setting in table.settings]


def leaves(model: type[BaseModel], *path: str) -> Iterator[tuple[str, Any]]:
    """Each setting inside a section with its default."""
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from leaves(kind, *path, name)
        elif path and name != "api_key":
            yield ".".join((*path, name)), field.default


DEFAULTS = dict(leaves(Settings))


def test_settings_are_few() -> None:
    """At most 140: what nobody sets is a constant with its reason, and a further setting takes the place of another."""
    assert len(ALL) <= 140


@each(ALL, attrgetter("name"))
def test_every_setting_is_described(setting: settings.Setting) -> None:
    """In the `Attributes` of its type, in words and not by its name alone."""
    assert len(setting.description.split()) > 1


def test_the_page_has_every_setting() -> None:
    """Each field as an entry, or as a table of its own."""
    tables = {table.path.removesuffix("[]") for table in settings.tables()}
    assert {setting.name for setting in ALL} | tables >= DEFAULTS.keys()


@each(
    [
        kind
        for kind in vars(worker.settings).values()
        if isinstance(kind, type) and issubclass(kind, (Section, Settings))
    ],
)
def test_no_description_is_of_a_field_that_is_gone(kind: type[BaseModel]) -> None:
    """A field that is renamed takes its description along."""
    described = re.findall(r"^ {4}(\w+): ", inspect.cleandoc(str(kind.__doc__)), re.MULTILINE)
    assert set(described) == kind.__annotations__.keys() & kind.model_fields.keys()


@each(
    [
        setting.name
        for setting in ALL
        if not SECRET.fullmatch(setting.name) and not setting.name.startswith(WRITTEN_BY_A_COMMAND)
    ],
)
def test_every_setting_has_an_example_in_the_shipped_files(name: str) -> None:
    """As it is written there, in use or as a comment."""
    last = name.rpartition(".")[2]
    assert re.search(rf"\b{last} = |^(# )?\[.*\.{last}\]", SHOWN, re.MULTILINE)


@each(name for name in DEFAULTS if name.startswith(tuple(f"{s}." for s in WHOLE_SECTIONS)))
def test_the_shipped_file_says_the_defaults(name: str) -> None:
    """Copying it changes no setting."""
    section, _, setting = name.partition(".")
    assert tomllib.loads((config_folder() / "worker.toml").read_text())[section][setting] == DEFAULTS[name]
