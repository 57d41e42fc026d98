"""The site: tutorials and guides are executed, it builds without a warning, what a newcomer looks for is near."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from weft import Schema
from weft.cli import app

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [
    DOCS / "index.md",
    DOCS / "explore.md",
    *sorted((DOCS / "tutorials").glob("*.md")),
    *sorted((DOCS / "guides").glob("*.md")),
]


def blocks(page: Path) -> list[tuple[str, str, str]]:
    """Return the language, the title and the text of each block of code, in their order."""
    return re.findall(r"```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)```", page.read_text(), re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_shows_runs_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = blocks(page)
    if not any(language in ("console", "python", "toml") for language, _, _ in shown):
        pytest.skip("the page shows nothing to run")
    runner = CliRunner()
    assert runner.invoke(app, ["demo", "--rows", "800", "-q"]).exit_code == 0
    Path("released").mkdir()
    for language, title, text in shown:
        if title:
            Path(title).write_text(text)
        elif language == "toml":
            Schema.from_toml(text)
        elif language == "python":
            exec(compile(text, page.name, "exec"), {})
        elif language == "console":
            for line in text.splitlines():
                words = shlex.split(line.removeprefix("$ "))
                if words[:2] != ["weft", "demo"]:
                    faster = words[1] == "synth" and not {"-m", "--method", "--time"} & {*words}
                    quick = ["--method", "independent"] if faster else []
                    done = runner.invoke(app, [*words[1:], *quick])
                    assert done.exit_code == 0, (line, done.output)


@pytest.mark.slow  # CI builds the site itself (.ci/run)
@pytest.mark.skipif(
    shutil.which("mkdocs", path=str(Path(sys.executable).parent)) is None, reason="mkdocs is not installed"
)
def test_the_site_builds_without_a_warning(tmp_path):
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, env={"NO_MKDOCS_2_WARNING": "1", "PATH": ""})
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
    home = (tmp_path / "site" / "index.html").read_text()
    assert not re.search(r"<(?:script|link|img)[^>]*(?:src|href)=.https?:", home.replace('rel="canonical"', ""))
    for near in ("tutorials/code-book.html#order-of-dates", "guides/epsilon.html", "tutorials/spark.html"):
        assert near in home
