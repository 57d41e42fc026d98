"""Pages of the site that are made from the program itself: commands, methods, keys of a schema, decisions."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

DOCS = Path(__file__).parent
_MARKUP = re.compile(r"\[/?(?:bold|red|green|dim)[^\]]*\]")
_SHIM = "https://unpkg.com/iframe-worker/shim"
_OUTSIDE = re.compile(r"\[([^\]]*)\]\((?:\.\./)+(?:weft|tests|README\.md|CONTRIBUTING\.md|CHANGELOG\.md)[^)]*\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    made = {
        "reference/commands.md": commands(),
        "reference/methods.md": methods(),
        "reference/keys.md": keys(),
        "decisions/index.md": decisions(),
    }
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Show the name of a file of the repository, which the site does not hold, without a link."""
    return _OUTSIDE.sub(r"\1", markdown)


def on_post_template(output_content: str, **_: Any) -> str:
    """Likewise for the page of addresses that do not exist, which is shown at any depth."""
    return output_content.replace(_SHIM, "/assets/offline.js")


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """Have the search work from a disk by a script of our own: nothing comes from elsewhere."""
    ours = "../" * page.url.count("/") + "assets/offline.js"
    return output.replace(_SHIM, ours)


def commands() -> str:
    """Return every command with its options."""
    from weft.cli import EXIT_CODES, app

    tree = typer.main.get_command(app)
    parts = ["# Commands", "", "Every command of `weft`, from its own help.", ""]
    for name, command in _walk(tree, "weft"):
        parts += [f"## {name}", "", *_help(command), *_options(command)]
    codes = _MARKUP.sub("", EXIT_CODES).replace("\b\n", "")
    return "\n".join([*parts, "## Exit codes", "", "```text", codes, "```", ""])


def _walk(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for each, sub in sorted(command.commands.items()):
            yield from _walk(sub, f"{name} {each}")
    else:
        yield name, command


def _help(command: click.Command) -> list[str]:
    text = _MARKUP.sub("", inspect.cleandoc(command.help or ""))
    parts: list[str] = []
    for block in re.split(r"\n\s*\n", text):
        literal = block.startswith("\b")
        body = block.removeprefix("\b").strip("\n")
        parts += ["```text", body, "```", ""] if literal or "\n  " in block else [body, ""]
    return parts


def _options(command: click.Command) -> list[str]:
    rows = []
    for each in command.params:
        if each.name == "help" or getattr(each, "hidden", False):
            continue
        told = _MARKUP.sub("", getattr(each, "help", None) or "").replace("|", r"\|").replace("\n", " ")
        names = [each.metavar or str(each.name).upper()] if isinstance(each, click.Argument) else each.opts
        default = each.default
        shown = f" Default: `{default}`." if default not in (None, False, (), [], "") and not callable(default) else ""
        rows.append(f"| {', '.join(f'`{name}`' for name in names)} | {told}{shown} |")
    return ["| | |", "|---|---|", *rows, ""] if rows else []


def methods() -> str:
    """Return every method with its options."""
    from weft.methods import METHODS, get_method_class
    from weft.methods.common.options import options_of

    parts = ["# Methods", "", "`weft synth --method NAME --option KEY=VALUE`. `auto` stands for weave.", ""]
    for name in METHODS:
        kind = get_method_class(name)
        told = inspect.cleandoc(inspect.getmodule(kind).__doc__ or "")
        parts += [f"## {name}", "", "```text", told, "```", ""]
        published = dict(kind.paper or {})
        head = ["| option | default | as published | |", "|---|---|---|---|"]
        rows = [
            f"| `{each.name}` | `{each.default}` | {f'`{published[each.name]}`' if each.name in published else ''} | "
            f"{each.meaning.replace('|', chr(92) + '|')} |"
            for each in options_of(kind)
        ]
        parts += [*head, *rows, ""]
    return "\n".join(parts)


def keys() -> str:
    """Return every key of a schema file."""
    from weft.drafting.review import MEANINGS
    from weft.schema import Schema
    from weft.schema.kinds import KINDS

    parts = ["# Every key of a schema", "", "[Columns](../columns.md) and [rules](../rules.md) show them at work.", ""]
    parts += ["## At the top of the file", "", "| key | default |", "|---|---|"]
    own = [each for each in fields(Schema) if each.name not in ("columns", "source")]
    parts += [f"| `{each.name}` | `{each.default}` |" for each in own]
    parts += ["", "## Of a column", "", "| kind | keys |", "|---|---|"]
    for name, kind in KINDS.items():
        parts.append(f"| `{name}` | {', '.join(f'`{key}`' for key in kind.fact_names() if key != 'kind')} |")
    meanings = [f"| `{key}` | {told} |" for key, told in MEANINGS.items()]
    return "\n".join([*parts, "", "| key | what it says |", "|---|---|", *meanings, ""])


def decisions() -> str:
    """Return the list of decisions."""
    found = sorted((DOCS / "decisions").glob("[0-9]*.md"))
    titles = [(path.name, path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")) for path in found]
    lines = [f"- [{title}]({name})" for name, title in titles]
    return "\n".join(["# Decisions", "", "Why Weft is as it is, with what was measured.", "", *lines, ""])
