"""Pictures of the inspector for the documentation: pages by the system's Chromium, the terminal by Textual.

Run by `make pictures`.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.inspected import HUM, NOISE, SIGN_IN, pages, record, sample_engine
from playwright.sync_api import sync_playwright
from textual.widgets import OptionList

from worker.cli.commands.ui import in_this_process
from worker.inspector.terminal.app import Pane, Terminal
from worker.inspector.terminal.desk import Desk

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.pilot import Pilot

    from worker.jobs.engine import Engine
    from worker.model import Principal
    from worker.settings import Settings

IMAGES = Path(__file__).parents[1] / "images"
SIZE = (104, 30)
LOOKS = 600
"""Most looks at a pane until it shows what is waited for."""


def main() -> None:
    """Write all pictures."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("no Chromium on PATH")
    with sample_engine() as (_, engine, settings, caller):
        record(engine, caller, "desk", "noise-floor", NOISE)
        record(engine, caller, "desk", "hum", HUM)
        with pages() as url:
            photograph(chromium, url)
        asyncio.run(draw(engine, settings, caller))


def photograph(chromium: str, url: str) -> None:
    """Write the pictures of pages."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1180, "height": 760}, base_url=url)
        page.goto(SIGN_IN)
        page.goto("/run?subject=desk&run=hum")
        page.click("a.cite")
        page.screenshot(path=IMAGES / "inspector-run.png")
        page.set_viewport_size({"width": 1180, "height": 560})
        page.goto("/citations?subject=desk&run=noise-floor")
        page.screenshot(path=IMAGES / "inspector-conflict.png")
        browser.close()


async def draw(engine: Engine, settings: Settings, caller: Principal) -> None:
    """Write the picture of the terminal: an answer, and a source at its quoted words."""
    choices = {"mode": [*settings.modes], "profile": [*settings.profiles]}
    app = Terminal(Desk(engine, caller, in_this_process(engine)), choices)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("f7")
        runs = app.query_one("#runs-lines", OptionList)
        await until(pilot, lambda: runs.options and app.focused is runs)
        await pilot.press("home", "enter")
        await until(pilot, lambda: app.query_one("#source", Pane).reports)
        await pilot.pause()
        drawn = app.export_screenshot(title="retrieval-worker ui --as alice")
    # It would load a font from elsewhere; every system has a monospaced one.
    drawn = re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL)
    (IMAGES / "inspector-terminal.svg").write_text(drawn.replace("Fira Code,", ""), encoding="utf-8")


async def until(pilot: Pilot[None], is_so: Callable[[], object]) -> None:
    """Wait until something is so."""
    for _ in range(LOOKS):
        if is_so():
            return
        await pilot.pause(0.05)


if __name__ == "__main__":
    main()
