from __future__ import annotations

import dataclasses

import pytest

from worker.model import NO_FILTERS, FilterSet, Principal

LISTS = ["document_ids", "sections", "pages", "path_contains", "ext_allow", "ext_deny"]


@pytest.mark.parametrize("name", [*LISTS, "metadata"])
def test_an_empty_filter_is_given(name: str) -> None:
    """`[]` and `{}` are filters; only the absence of all is none."""
    assert FilterSet(**{name: () if name in LISTS else {}}).given
    assert not NO_FILTERS.given


@pytest.mark.parametrize("name", LISTS)
def test_an_empty_list_of_what_is_allowed_matches_nothing(name: str) -> None:
    """`[]` rules out every chunk, but for a list of what is denied."""
    assert FilterSet(**{name: ()}).matches_nothing == (name != "ext_deny")
    assert not FilterSet(**{name: ("x",)}).matches_nothing


@pytest.mark.parametrize("value", [NO_FILTERS, Principal()], ids=lambda value: type(value).__name__)
def test_the_vocabulary_is_frozen(value: FilterSet | Principal) -> None:
    """What one layer hands to the next can't be changed on the way."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, dataclasses.fields(value)[0].name, None)


def test_nobody_asks_by_default() -> None:
    """A principal without claims owns nothing and states nothing."""
    assert (Principal().owner, Principal().settings, dict(Principal().claims)) == ("", (), {})
