"""The plot of an evaluation as SVG: each system's mean and interval, a panel for each measure; on light and dark."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from worker.core.ranking.measures import measure_title
from worker.core.text.visible import visible_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from workbench.core.significance import Estimate
    from workbench.evaluation.figures import Evaluation

_NAMES, _WIDTH, _VALUES = 150, 420, 60
"""Widths in pixels: of the systems' names, of the axis, of the values beside it."""

_ROW, _HEAD, _FOOT, _TOP = 22, 26, 30, 34
"""Heights in pixels: of a system, of a panel's title, of its axis, of the plot's title."""

_LONGEST_NAME, _LONGEST_TITLE = 22, 55
"""Characters."""

_SPACE = 'xmlns="http://www.w3.org/2000/svg"'
_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1b1f24 }
.title { font-size: 14px; font-weight: 600 } .panel { font-weight: 600 } .tick { font-size: 10px; fill: #57606a }
.back { fill: #ffffff } .grid { stroke: #d0d7de } .range { stroke: #1f5f8b; stroke-width: 2 } .mean { fill: #1f5f8b }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .tick { fill: #9aa4af } .back { fill: #0d1117 } .grid { stroke: #30363d }
.range { stroke: #6cb6ff } .mean { fill: #6cb6ff }
}
"""


def svg(title: str, evaluation: Evaluation) -> str:
    """Return the plot; equal figures give equal text."""
    panel = _HEAD + _ROW * len(evaluation.figures) + _FOOT
    width, height = _NAMES + _WIDTH + _VALUES, _TOP + panel * len(evaluation.measures)
    lines = [
        f'<svg {_SPACE} width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{_text(title)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="back" width="{width}" height="{height}"/>',
        f'<text class="title" x="12" y="22">{_text(_short(title, _LONGEST_TITLE))}: mean, 95 % interval</text>',
    ]
    for place, measure in enumerate(evaluation.measures):
        figures = {system: estimates[measure] for system, estimates in evaluation.figures.items()}
        lines += [f'<g transform="translate(0 {_TOP + panel * place})">', *_panel(measure, figures), "</g>"]
    return "\n".join([*lines, "</svg>", ""])


def _panel(measure: str, figures: Mapping[str, Estimate]) -> Iterator[str]:
    """Yield one measure: a row for each system over one axis from 0 to 1."""
    bottom = _HEAD + _ROW * len(figures)
    yield f'<text class="panel" x="{_NAMES}" y="16">{_text(measure_title(measure))}</text>'
    for tick in _TICKS:
        x = _x(tick)
        yield f'<line class="grid" x1="{x}" y1="{_HEAD}" x2="{x}" y2="{bottom}"/>'
        yield f'<text class="tick" x="{x}" y="{bottom + 13}" text-anchor="middle">{tick:g}</text>'
    for place, (system, figure) in enumerate(figures.items()):
        y = _HEAD + _ROW * place + _ROW // 2
        name = _short(system, _LONGEST_NAME)
        yield f'<text x="{_NAMES - 10}" y="{y + 4}" text-anchor="end">{_text(name)}</text>'
        yield f'<line class="range" x1="{_x(figure.low)}" y1="{y}" x2="{_x(figure.high)}" y2="{y}"/>'
        yield f'<circle class="mean" cx="{_x(figure.mean)}" cy="{y}" r="4">'
        yield f"<title>{_text(system)}: {figure.mean:.3f} ({figure.low:.3f} to {figure.high:.3f})</title></circle>"
        yield f'<text x="{_NAMES + _WIDTH + 8}" y="{y + 4}">{figure.mean:.3f}</text>'


def _x(value: float) -> str:
    return f"{_NAMES + _WIDTH * value:.1f}"


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _text(text: str) -> str:
    """Return untrusted text for XML, without characters that it does not allow."""
    return escape(visible_line(text))
