"""The page of the command line: every command with its arguments, options and examples, as `--help` has them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from typer.main import get_command

from reference_pages.markdown import code_block, definitions, prose
from workbench.main import cli

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = "retrieval-worker"
_USAGE_WIDTH = 120
_EXAMPLES = re.compile(r"(?:^|\n\n)Examples?: ", re.DOTALL)
_BOLD = re.compile(r"\[bold\](.*?)\[/bold\]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Command:
    """A command, or a group of commands.

    Attributes:
        name: as it is typed.
        usage: one line.
        text: what it does, without its examples.
        examples: command lines.
        parameters: how each is typed, and what it means.
        group: whether it only has commands inside.
    """

    name: str
    usage: str
    text: str
    examples: tuple[str, ...]
    parameters: tuple[tuple[str, str], ...]
    group: bool


def page() -> str:
    """All commands, in the order of `--help`."""
    return "\n\n".join(_shown(command) for command in commands())


def commands() -> Iterator[Command]:
    """Every command and group below the program's own name, groups before their commands."""
    program: Any = get_command(cli)
    context = program.context_class(program, info_name=PROGRAM)
    for name in program.list_commands(context):
        yield from _commands(program.commands[name], f"{PROGRAM} {name}")


def _commands(command: Any, name: str) -> Iterator[Command]:
    context = command.context_class(command, info_name=name, terminal_width=_USAGE_WIDTH)
    inside = getattr(command, "commands", {})
    help_text = (command.help or "").strip()
    said = [(parameter, parameter.get_help_record(context)) for parameter in command.params]
    yield Command(
        name=name,
        usage=command.get_usage(context).removeprefix("Usage: "),
        text=_EXAMPLES.split(help_text)[0],
        examples=tuple(
            " ".join(text.split()) for part in _EXAMPLES.split(help_text)[1:] for text in _BOLD.findall(part)
        ),
        parameters=tuple(record for parameter, record in said if record is not None and not parameter.hidden),
        group=bool(inside),
    )
    for inner, child in inside.items():
        yield from _commands(child, f"{name} {inner}")


def _shown(command: Command) -> str:
    heading = f"## `{command.name}`"
    text = prose(_BOLD.sub(r"`\1`", command.text))
    if command.group:
        return f"{heading}\n\n{text}"
    usage, examples = code_block("text", command.usage), code_block("sh", "\n".join(command.examples))
    parameters = definitions((typed, [_meaning(meaning)]) for typed, meaning in command.parameters)
    return "\n\n".join(part for part in (heading, text, usage, parameters, "Example:", examples) if part)


def _meaning(text: str) -> str:
    """Return a parameter's meaning and, in literals, default, bounds, variable."""
    words, bracket, added = text.rpartition("  [")
    return f"{prose(words)} ({added.removesuffix(']').replace('<=', ' ≤ ')})" if bracket else prose(text)
