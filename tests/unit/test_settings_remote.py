"""Settings of remote sources and of what names them: all that is wrong with them is said at the start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from retrieval_client.errors import SettingsError
from worker.adapters.providers.remote_sources import RemoteSources
from worker.settings import from_values

if TYPE_CHECKING:
    from collections.abc import Callable

    from worker.settings import Settings

SECRET = "hunter2-correct-horse-battery"  # noqa: S105 -- planted, to be looked for
PAPERS = {"url": "https://search.test/papers?q={query}&n={k}"}


def test_a_url_is_all_that_a_service_needs(make_settings: Callable[..., Settings]) -> None:
    """The rest has defaults that read the plainest answer there is: a list of title, url, snippet."""
    papers = make_settings(remote={"papers": PAPERS}).remote["papers"]
    assert (papers.items, papers.fields.title, papers.fields.url, papers.fields.snippet) == (
        "@",
        "title",
        "url",
        "snippet",
    )
    assert (papers.allow_private, papers.headers) == ([], {})
    RemoteSources({"papers": papers})


def test_the_environment_holds_the_secrets(
    make_settings: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`env:NAME` stands for a variable, alone or behind a scheme; no form of the settings shows what it holds."""
    monkeypatch.setenv("SEARCH_KEY", SECRET)
    headers = {"X-Key": "env:SEARCH_KEY", "Authorization": "Bearer env:SEARCH_KEY", "X-Plain": "environment"}
    settings = make_settings(remote={"papers": {**PAPERS, "headers": headers}})
    sent = {name: value.get_secret_value() for name, value in settings.remote["papers"].headers.items()}
    assert sent == {"X-Key": SECRET, "Authorization": f"Bearer {SECRET}", "X-Plain": "environment"}
    assert SECRET not in f"{settings} {settings!r} {settings.model_dump()} {settings.model_dump_json()}"


WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "no URL": ({"url": None}, "url", ""),
    "another scheme": ({"url": "ftp://search.test/?q={query}"}, "url", "http or https"),
    "no host": ({"url": "https:///search?q={query}"}, "url", "http or https"),
    "a wrong port": ({"url": "https://search.test:x/?q={query}"}, "url", "http or https"),
    "a broken URL": ({"url": "https://[search/?q={query}"}, "url", "http or https"),
    "a password": ({"url": f"https://me:{SECRET}@search.test/?q={{query}}"}, "url", "headers"),
    "no question": ({"url": "https://search.test/?q=x"}, "url", "{query}"),
    "the question as host": ({"url": "https://{query}.test/?q={query}"}, "url", "{query}"),
    "the question as path": ({"url": "https://search.test/{query}?n={k}"}, "url", "{query}"),
    "a number as path": ({"url": "https://search.test/{k}?q={query}"}, "url", "{query}"),
    "another placeholder": ({"url": "https://search.test/?q={query}&l={lang}"}, "url", "placeholders"),
    "no JMESPath": ({"items": "results[?"}, "items", "JMESPath"),
    "no such function": ({"fields": {"title": "a[*].lower(name)"}}, "fields.title", "no function lower"),
    "an empty expression": ({"fields": {"snippet": ""}}, "fields.snippet", "JMESPath"),
    "a part that is not there": ({"fields": {"author": "by"}}, "fields.author", "not known"),
    "a missing variable": ({"headers": {"X-Key": "env:NOT_SET"}}, "headers.X-Key", "the variable NOT_SET is missing"),
    "an empty variable": ({"headers": {"X-Key": "env:EMPTY"}}, "headers.X-Key", "the variable EMPTY is missing"),
    "two lines": ({"headers": {"X-Key": f"{SECRET}\r\nX-Other: 1"}}, "headers.X-Key", "printable"),
    "another Host": ({"headers": {"HOST": "internal"}}, "headers.HOST", "another header"),
    "no header's name": ({"headers": {"X Key": "1"}}, "headers.X Key", ""),
    "no network": ({"allow_private": ["10.0.0.0/99"]}, "allow_private", "expected a host, address or network"),
    "no address": ({"allow_private": ["10.0.0.300"]}, "allow_private", "expected a host, address or network"),
    "a URL": ({"allow_private": ["http://search.internal"]}, "allow_private", "expected a host, address or network"),
    "no time": ({"timeout_seconds": 0}, "timeout_seconds", ""),
}


@pytest.mark.parametrize(("changes", "name", "said"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_setting_stops_the_start(
    values: dict[str, Any], monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], name: str, said: str
) -> None:
    """One line with its full name, and never a value."""
    monkeypatch.delenv("NOT_SET", raising=False)
    monkeypatch.setenv("EMPTY", "")
    with pytest.raises(SettingsError) as caught:
        from_values({**values, "remote": {"papers": {**PAPERS, **changes}}})
    message = caught.value.message
    assert message.startswith(f"the setting remote.papers{'.' if name else ''}{name}")
    assert said in message
    assert SECRET not in message
    assert "\n" not in message


def test_a_mode_names_what_is_there(values: dict[str, Any]) -> None:
    """A mode with an unknown service stops the start."""
    mode = {"corpora": {"documents": 0}, "profile": "p", "instructions": "Answer.", "remote": ["papers"]}
    reported = {**values, "profiles": {"p": {"legs": [{}]}}, "modes": {"m": mode}}
    assert from_values({**reported, "remote": {"papers": PAPERS}}).modes["m"].remote == ["papers"]
    with pytest.raises(SettingsError, match=r"modes\.m\.remote: there is no remote source papers"):
        from_values(reported)
