"""Checks of the repository's own parts: one test, one subtest for each part."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pytest

ItemT = TypeVar("ItemT")


def each(
    items: Iterable[ItemT], name: Callable[[ItemT], str] = str
) -> Callable[[Callable[[ItemT], None]], Callable[[pytest.Subtests], None]]:
    """Make a check of one item a test of all of them; every item that fails is named.

    Args:
        items: some, at least one.
        name: names an item.
    """
    all_items = [*items]
    assert all_items, "nothing to check"

    def decorate(check: Callable[[ItemT], None]) -> Callable[[pytest.Subtests], None]:
        def test(subtests: pytest.Subtests) -> None:
            for item in all_items:
                with subtests.test(name(item)):
                    check(item)

        test.__doc__ = check.__doc__
        return test

    return decorate
