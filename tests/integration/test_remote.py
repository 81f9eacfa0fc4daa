"""Remote sources against real HTTP servers on loopback; only names are looked up in a table."""

from __future__ import annotations

import datetime as dt
import gzip
import ssl
import threading
import time
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.integration.site import drips, drips_headers, leads, says, serving, stalls

from worker.adapters.providers.addresses import resolve
from worker.adapters.providers.http_client import REMOTE_BYTES
from worker.adapters.providers.remote_sources import LONGEST, MOST_RESULTS, RemoteResults, RemoteSources
from worker.model import RemoteSource
from worker.settings.providers import RemoteSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from tests.integration.site import Page, Site, Visit

SECRET = "hunter2-correct-horse-battery"  # noqa: S105 -- planted, to be looked for
ONE = {"title": "Kick drums", "url": "https://elsewhere.test/1", "snippet": "A kick is low."}
TWO = {"title": "Snares", "url": "https://elsewhere.test/2", "snippet": "A snare rattles."}
MEGABYTE = REMOTE_BYTES


class Names:
    """A fake name server: its answers, and the names that were asked for."""

    def __init__(self, **hosts: Sequence[str]) -> None:
        self.hosts = {"search.test": ["127.0.0.1"], "other.test": ["127.0.0.1"]} | {
            name.replace("_", "."): found for name, found in hosts.items()
        }
        self.asked: list[str] = []

    def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return self.hosts[host] if host in self.hosts else resolve(host, port)


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as one:
        yield one


def service(site: Site, **changes: Any) -> RemoteSettings:
    values = {
        "url": f"http://search.test:{site.port}/search?q={{query}}&n={{k}}",
        "items": "results",
        "allow_private": ["127.0.0.0/8"],
        "headers": {"X-Key": SECRET},
    }
    return RemoteSettings(**{**values, **changes})


def ask(
    services: dict[str, RemoteSettings] | RemoteSettings,
    names: Callable[[str, int], Sequence[str]] | None = None,
    question: str = "kick",
    k: int = 5,
    seconds: float = 30.0,
) -> RemoteResults:
    named = services if isinstance(services, dict) else {"papers": services}
    remote = RemoteSources(named, names or Names())
    found = remote.find(list(named), question, k, seconds)
    for secret in (SECRET, "search.test", "127.0.0.1", "http:", question):
        assert secret not in str(found.failed)
    return found


def reason(found: RemoteResults) -> str:
    assert found.sources == ()
    ((name, why),) = found.failed
    assert name == "papers"
    return why


def paths(site: Site) -> list[str]:
    return [path.split("?")[0] for path, _ in site.visits]


# --- what is asked, and what is found -----------------------------------------------------------


def test_a_service_is_asked_as_its_settings_say(site: Site) -> None:
    """One GET: the question is data and nothing else in the URL, the host is the service's, headers go along."""
    site.pages["/search"] = says({"results": [ONE]})
    names = Names()
    ask(service(site), names, question="hi-hats & snares=?#/../%41 {k} Größe\ud800", k=3)
    ((path, headers),) = site.visits
    assert path == ("/search?q=hi-hats%20%26%20snares%3D%3F%23%2F..%2F%2541%20%7Bk%7D%20Gr%C3%B6%C3%9Fe%3F&n=3")
    assert (headers["Host"], headers["X-Key"]) == (f"search.test:{site.port}", SECRET)
    assert names.asked == ["search.test"]


def test_what_is_found_is_read_where_the_settings_say(site: Site) -> None:
    """In the service's own order, with its own score; every part by an expression."""
    answer = {
        "hits": [
            {
                "doi": "10.1/x",
                "name": {"en": "Kick"},
                "text": ["A kick", "is low."],
                "rank": 2,
                "when": "2024-05-01",
                "by": {"name": "Ada", "papers": [1]},
            },
            {"doi": "10.1/y", "name": {"en": "Snare"}, "text": ["Rattles."], "rank": 9.5, "when": "2024-05-01T10:00Z"},
        ]
    }
    fields = {
        "title": "name.en",
        "url": "join('', ['https://doi.org/', doi])",
        "snippet": "join(' ', text)",
        "score": "rank",
        "date": "when",
        "metadata": "by",
    }
    site.pages["/search"] = says(answer)
    found = ask(service(site, items="hits", fields=fields))
    assert found == RemoteResults(
        (
            RemoteSource(
                "papers", "Kick", "https://doi.org/10.1/x", "A kick is low.", 2.0, "2024-05-01", {"name": "Ada"}
            ),
            RemoteSource("papers", "Snare", "https://doi.org/10.1/y", "Rattles.", 9.5, "2024-05-01T10:00:00+00:00", {}),
        )
    )


def test_items_of_wrong_types_are_skipped_and_counted(site: Site) -> None:
    """No URL or no snippet: no source. Any other part of a wrong type is as if it were not there."""
    wrong = [
        None,
        7,
        "text",
        [ONE],
        {},
        {**ONE, "url": None},
        {**ONE, "url": "javascript:alert(1)"},
        {**ONE, "url": "https://[broken"},
        {**ONE, "url": "https://elsewhere.test/" + "x" * LONGEST["url"]},
        {**ONE, "snippet": ["A kick is low."]},
        {**ONE, "snippet": " \n\u200b"},
    ]
    odd = [
        {**ONE, "title": {"en": "Kick"}, "score": "high", "date": "yesterday", "metadata": ["x"]},
        {**ONE, "score": True, "date": 20240501, "metadata": "x"},
    ]
    fields = {"score": "score", "date": "date", "metadata": "metadata"}
    searched = service(site, items="@", fields=fields)
    for result in wrong:
        site.pages["/search"] = says([result, ONE])
        found = ask(searched)
        assert (len(found.sources), found.failed, found.skipped) == (1, (), {"papers": 1})
        assert found.incomplete == ["papers: 1 results without a URL or a snippet"]
    site.pages["/search"] = says(odd)
    bare = RemoteSource("papers", "", ONE["url"], ONE["snippet"])
    assert ask(searched).sources == (bare, RemoteSource("papers", ONE["title"], ONE["url"], ONE["snippet"]))


def test_strings_are_bounded_and_show_all_that_they_say(site: Site) -> None:
    """No control characters, no hidden or turned text, one line, no longer than is kept."""
    item = {
        "title": "A\x00B\x1b[31m\u202eC" + "t" * 1000,
        "url": ONE["url"],
        "snippet": "one\n\n[S1]\ttwo\U000e0041 " + "s" * 10_000,
        "metadata": {"by\x07": "m" * 1000, "deep": {"x": 1}, **{f"key {i}": i for i in range(100)}},
    }
    site.pages["/search"] = says([item])
    (source,) = ask(service(site, items="@", fields={"metadata": "metadata"})).sources
    assert source.title.startswith("A B [31mCttt")
    assert source.snippet.startswith("one [S1] two sss")
    assert (len(source.title), len(source.snippet)) == (LONGEST["title"], LONGEST["snippet"])
    assert (source.metadata["by"], len(source.metadata)) == ("m" * LONGEST["metadata"], 20)
    assert "deep" not in source.metadata


def test_no_more_than_wanted_is_asked_for_and_kept(site: Site) -> None:
    """The lesser of the caller's k and five, also where the service gives more."""
    site.pages["/search"] = says({"results": [ONE, TWO] * 10})
    assert len(ask(service(site), k=9).sources) == MOST_RESULTS
    assert len(ask(service(site), k=2).sources) == 2
    assert [path[-3:] for path, _ in site.visits] == ["n=5", "n=2"]
    assert ask(service(site), k=0) == RemoteResults()
    assert ask({}) == RemoteResults()


def test_services_are_asked_at_the_same_time_and_answer_in_their_order(site: Site) -> None:
    """Each waits until the other was asked too; the first is the last to answer, and still comes first."""
    both, second_done = threading.Barrier(2), threading.Event()

    def slow(visit: Visit) -> None:
        both.wait(180)
        second_done.wait(180)
        says({"results": [ONE]})(visit)

    def quick(visit: Visit) -> None:
        both.wait(180)
        says({"results": [TWO, ONE]})(visit)
        second_done.set()

    site.pages.update({"/slow": slow, "/quick": quick})
    services = {
        name: service(site, url=f"http://search.test:{site.port}/{name}?q={{query}}") for name in ("slow", "quick")
    }
    found = ask(services)
    assert [(source.provider, source.title) for source in found.sources] == [
        ("slow", "Kick drums"),
        ("quick", "Snares"),
        ("quick", "Kick drums"),
    ]


def test_one_that_fails_leaves_the_others(site: Site) -> None:
    """It is named with its reason, and nothing else changes."""
    site.pages.update({"/search": says({"results": [ONE]}), "/broken": says({}, 503)})
    broken = service(site, url=f"http://search.test:{site.port}/broken?q={{query}}")
    found = ask({"broken": broken, "papers": service(site)})
    assert [source.provider for source in found.sources] == ["papers"]
    assert (found.failed, found.incomplete) == ((("broken", "answered HTTP 503"),), [])


def test_a_packed_answer_is_unpacked(site: Site) -> None:
    """Gzip is asked for, so it is understood."""
    packed = gzip.compress(b'{"results": [{"title": "Kick", "url": "https://elsewhere.test/1", "snippet": "Low."}]}')
    site.pages["/search"] = says(packed, Content_Encoding="gzip")
    assert ask(service(site)).sources[0].snippet == "Low."
    assert site.visits[0][1]["Accept-Encoding"] == "gzip"


# --- what it answers wrongly --------------------------------------------------------------------

NO_JSON = "did not answer JSON"
NO_LIST = "answered no list of results where the settings say"
ANSWERS: dict[str, tuple[Page, str]] = {
    "HTML": (says(b"<html><body>Log in</body></html>", Content_Type="text/html"), NO_JSON),
    "cut JSON": (says(b'{"results": [{"title": "a"'), NO_JSON),
    "NaN": (says(b'{"results": [NaN]}'), NO_JSON),
    "no UTF-8": (says(b'{"results": ["\xff"]}'), NO_JSON),
    "JSON without end": (says(b"[" * 100_000), NO_JSON),
    "nothing": (says(b""), NO_JSON),
    "another shape": (says({"hits": [ONE]}), NO_LIST),
    "an object for the list": (says({"results": ONE}), NO_LIST),
    "a bare text": (says("results"), NO_LIST),
    "not found": (says({"results": [ONE]}, 404), "answered HTTP 404"),
    "too many": (says({"error": SECRET}, 429, Retry_After="3600"), "answered HTTP 429"),
    "another encoding": (says(b"x", Content_Encoding="br"), "answered in an encoding that was not requested"),
    "damaged gzip": (says(b"no gzip", Content_Encoding="gzip"), "answered damaged gzip"),
    "cut gzip": (says(gzip.compress(b'{"results": []}')[:-9], Content_Encoding="gzip"), "broke off"),
    "a cut body": (says(b'{"results": []}', Content_Length="1000"), "failed (RemoteProtocolError)"),
    "no HTTP": (lambda visit: visit.body(b"SSH-2.0-x\r\n\r\n"), "failed (RemoteProtocolError)"),
}


@pytest.mark.parametrize(("page", "why"), ANSWERS.values(), ids=ANSWERS.keys())
def test_a_wrong_answer_is_told_and_quotes_nothing(site: Site, page: Page, why: str) -> None:
    """One clear reason; the job goes on."""
    site.pages["/search"] = page
    assert reason(ask(service(site))) == why


def test_a_huge_answer_is_left_as_soon_as_it_is_too_large(site: Site) -> None:
    """Of 100 MB the worker takes one, and the rest is never sent."""

    def huge(visit: Visit) -> None:
        visit.head()
        for _ in range(1000):
            visit.body(b" " * 100_000)

    site.pages["/search"] = huge
    assert reason(ask(service(site))) == f"answered more than {MEGABYTE} bytes"
    assert site.sent < 50 * MEGABYTE


@pytest.mark.parametrize("after", [b"", b"x" * 2 * MEGABYTE], ids=["a bomb", "a tail behind the end"])
def test_a_gzip_bomb_is_never_unpacked(site: Site, after: bytes) -> None:
    """100 MB in 100 kB: unpacking stops at the limit, and so does what is held."""
    packed = gzip.compress(b" " * (100 * MEGABYTE if not after else 10)) + after
    site.pages["/search"] = says(packed, Content_Encoding="gzip")
    tracemalloc.start()
    try:
        assert reason(ask(service(site))) == f"answered more than {MEGABYTE} bytes"
        assert tracemalloc.get_traced_memory()[1] < 20 * MEGABYTE
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("page", [stalls, drips, drips_headers])
def test_time_is_limited_in_total(site: Site, page: Page) -> None:
    """A byte now and then is no answer; the lesser of the service's limit and the deadline counts."""
    site.pages["/search"] = page
    started = time.monotonic()
    assert reason(ask(service(site, timeout_seconds=0.3))) == "did not answer in time"
    assert reason(ask(service(site, timeout_seconds=60), seconds=0.3)) == "did not answer in time"
    assert time.monotonic() - started < 10


def test_a_name_server_that_stalls_is_not_waited_for(site: Site) -> None:
    """Looking a name up is part of the time."""
    released = threading.Event()

    def stalling(host: str, port: int) -> Sequence[str]:
        released.wait(180)
        return resolve(host, port)

    started = time.monotonic()
    assert reason(ask(service(site, timeout_seconds=0.3), stalling)) == "did not answer in time"
    assert time.monotonic() - started < 10
    released.set()


# --- where it may lead --------------------------------------------------------------------------

PRIVATE = {
    "loopback": ["127.0.0.1"],
    "private": ["10.0.0.7"],
    "link-local": ["169.254.169.254"],
    "IPv6 loopback": ["::1"],
    "IPv6 local": ["fd00:ec2::254"],
    "IPv4 in IPv6": ["::ffff:127.0.0.1"],
    "NAT64": ["64:ff9b::7f00:1"],
    "6to4": ["2002:7f00:1::1"],
    "Teredo": ["2001:0:7f00:1::1"],
    "multicast": ["224.0.0.1"],
    "shared": ["100.100.100.200"],
    "a platform's own": ["168.63.129.16"],
    "one of several": ["93.184.215.14", "127.0.0.1"],
}


@pytest.mark.parametrize("addresses", PRIVATE.values(), ids=PRIVATE.keys())
def test_a_host_with_a_private_address_is_not_asked(site: Site, addresses: list[str]) -> None:
    """Every address of the host counts, before any connection."""
    site.pages["/search"] = says({"results": [ONE]})
    found = ask(service(site, allow_private=["10.9.0.0/16", "other.test"]), Names(search_test=addresses))
    assert reason(found) == "led to a private address"
    assert site.visits == []


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "2130706433", "[::1]", "[::ffff:127.0.0.1]"])
def test_loopback_by_any_name_is_private(site: Site, host: str) -> None:
    """As the machine's own resolver reads it."""
    site.pages["/search"] = says({"results": [ONE]})
    found = ask(service(site, url=f"http://{host}:{site.port}/search?q={{query}}", allow_private=[]), resolve)
    assert reason(found) == "led to a private address"
    assert site.visits == []


@pytest.mark.parametrize("named", ["search.test", "127.0.0.1", "127.0.0.0/8", "SEARCH.TEST"])
def test_a_private_host_that_is_named_is_asked(site: Site, named: str) -> None:
    """By its name, its address or its network."""
    site.pages["/search"] = says({"results": [ONE]})
    assert ask(service(site, allow_private=[named])).sources


def test_a_name_that_leads_elsewhere_the_second_time_changes_nothing(site: Site) -> None:
    """Looked up once; the connection goes to the address that was checked."""
    answers = iter([["127.0.0.1"], ["10.0.0.7"]])
    site.pages["/search"] = says({"results": [ONE]})
    assert ask(service(site), lambda *_: next(answers)).sources
    assert next(answers) == ["10.0.0.7"]


def test_addresses_are_tried_in_turn(site: Site) -> None:
    """The second address is used if no server listens at the first."""
    site.pages["/search"] = says({"results": [ONE]})
    assert ask(service(site), Names(search_test=["127.0.0.2", "127.0.0.1"])).sources
    assert reason(ask(service(site), Names(search_test=["127.0.0.2", "127.0.0.3"]))) == "could not be reached"


def test_a_host_that_is_not_there_is_told(site: Site) -> None:
    """The name that can't be found is not repeated."""
    url = "http://no-such-host.invalid/search?q={query}"
    assert reason(ask(service(site, url=url), resolve)) == "has no address"


def test_proxies_of_the_environment_are_not_used(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy would look the name up itself."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    site.pages["/search"] = says({"results": [ONE]})
    assert ask(service(site)).sources


def test_redirects_are_followed_on_the_same_host_only(site: Site) -> None:
    """And a secret goes to the settings' own origin only, not to another port."""
    with serving() as elsewhere:
        site.pages["/search"] = leads(f"http://search.test:{elsewhere.port}/new")
        elsewhere.pages.update({"/new": leads("/newer", 307), "/newer": says({"results": [ONE]})})
        assert ask(service(site)).sources
        assert [headers["X-Key"] for _, headers in (*site.visits, *elsewhere.visits)] == [SECRET, None, None]
    site.pages["/search"] = leads(f"http://other.test:{site.port}/new")
    assert reason(ask(service(site))) == "led to another host"
    assert paths(site) == ["/search", "/search"]


@pytest.mark.parametrize(
    ("to", "why"),
    [
        ("http://127.0.0.1:{port}/new", "led to another host"),
        ("//127.0.0.1:{port}/new", "led to another host"),
        ("http://search.test@127.0.0.1:{port}/new", "led to another host"),
        ("http://search.test.evil.test/new", "led to another host"),
        ("file:///etc/passwd", "redirected to a scheme that is not allowed"),
        ("http://search.test:{port}/search", "redirected more than 3 times"),
        ("http://search.test:99999/new", "led to an invalid port"),
        ("http://" + "a" * 70_000, "failed (InvalidURL)"),
    ],
)
def test_a_redirect_to_anywhere_else_is_not_followed(site: Site, to: str, why: str) -> None:
    """Checked like the first URL: its host, its addresses, its scheme; and not for ever."""
    site.pages.update({"/search": leads(to.format(port=site.port)), "/new": says({"results": [ONE]})})
    assert reason(ask(service(site, allow_private=["search.test"]))) == why
    assert "/new" not in paths(site)
    assert len(site.visits) <= 4


# --- TLS ----------------------------------------------------------------------------------------


def certificate(folder: Path, host: str) -> ssl.SSLContext:
    """A server's TLS with a certificate of its own for a host; `authority.pem` makes a client believe it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "key.pem").write_bytes(private)
    (folder / "authority.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "authority.pem", folder / "key.pem")
    return context


def test_certificates_are_checked_against_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection goes to an address, yet the certificate must be the host's; and no redirect leads out of TLS."""
    context = certificate(tmp_path, "search.test")
    asked: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: asked.append(name)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    with serving(context) as site:
        site.pages["/search"] = says({"results": [ONE]})
        url = f"https://{{host}}:{site.port}/search?q={{{{query}}}}"
        assert ask(service(site, url=url.format(host="search.test"))).sources
        assert reason(ask(service(site, url=url.format(host="other.test")))) == "could not be reached"
        assert asked == ["search.test", "other.test"]
        site.pages["/search"] = leads(f"http://search.test:{site.port}/search")
        secure = service(site, url=url.format(host="search.test"))
        assert reason(ask(secure)) == "redirected to a scheme that is not allowed"
    monkeypatch.delenv("SSL_CERT_FILE")
    with serving(context) as site:
        site.pages["/search"] = says({"results": [ONE]})
        found = ask(service(site, url=f"https://search.test:{site.port}/search?q={{query}}"))
        assert reason(found) == "could not be reached"
