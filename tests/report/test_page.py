"""The page: self-contained, marked, escaped, small, and drawn by a browser."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pytest
from studio.chromium import CONTRAST, NESTED

from weft.encoding import Codec
from weft.evaluation.report import render, write
from weft.evaluation.report.measure_report import measure_private
from weft.marginals.records import Records
from weft.schema import Schema

VOID = {"meta", "link", "input", "br", "img", "rect", "path", "circle"}


class Balance(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links = [], [], []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids += [attrs["id"]] if "id" in attrs else []
        self.links += [attrs["href"]] if "href" in attrs else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        if "id" in dict(attrs):
            self.ids.append(dict(attrs)["id"])

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag


@pytest.mark.parametrize("edition", ["private", "releasable"])
def test_the_page_is_whole_and_fetches_nothing(edition, request):
    report = request.getfixturevalue(edition)
    page = render(report)
    parser = Balance()
    parser.feed(page)
    assert parser.open == []
    assert len(set(parser.ids)) == len(parser.ids)
    inside = {link[1:] for link in parser.links if link.startswith("#")}
    assert inside <= set(parser.ids)
    assert all(link.startswith(("#", "data:")) for link in parser.links)
    assert not re.search(r"""(src|url)\s*[=(]\s*["']?(https?:)?//""", page)
    assert "@import" not in page
    assert page.count("<svg") == page.count("</svg>")
    assert "nan" not in re.findall(r'd="[^"]*(nan|inf)', page)
    for column in report.columns:
        assert f"<title>{column.name}:" in page


def test_the_private_edition_is_marked_everywhere(private, releasable):
    page = render(private)
    assert "<title>PRIVATE:" in page and '@top-center{content:"PRIVATE' in page
    assert page.index("PRIVATE: the curator") < page.index("Single columns") < page.index("Column by column")
    assert "PRIVATE" not in render(releasable)


def test_what_users_named_is_escaped():
    name = "<b>&\"'"
    text = json.dumps(name)
    schema = Schema.from_toml(
        f'[columns.{text}]\nkind = "category"\nvalues = ["<script>", "&amp;"]\n[columns.b]\nkind="boolean"'
    )
    codec = Codec(schema, pa.schema([(name, pa.string()), ("b", pa.bool_())]))
    rows = Records.of(codec.domain, [[0, 1, 1, 0], [1, 1, 0, 0]])
    page = render(measure_private(rows, rows, codec))
    assert '<b>&"' not in page and page.count("<script>") == 1 and "&lt;script&gt;" in page


def test_the_page_and_its_twin_are_written_together(private, tmp_path):
    page, twin = write(private, tmp_path / "r.html")
    assert json.loads(twin.read_text())["edition"] == "private"
    assert page.read_text() == render(private)
    assert {path.name for path in tmp_path.iterdir()} == {"r.html", "r.json"}


@pytest.mark.parametrize(("columns", "most"), [(50, 3_500_000), pytest.param(150, 5_000_000, marks=pytest.mark.slow)])
def test_many_columns_make_no_large_page(columns, most):
    rng = np.random.default_rng(0)
    entries = [
        f'[columns.c{i:03d}]\nkind = "category"\nvalues = {json.dumps([f"value {v}" for v in range(60)])}\n'
        for i in range(columns)
    ]
    codec = Codec(Schema.from_toml("".join(entries)), pa.schema([(f"c{i:03d}", pa.string()) for i in range(columns)]))
    real, synth = (Records.of(codec.domain, rng.integers(0, 60, (columns, 400)).tolist()) for _ in range(2))
    report = measure_private(real, synth, codec)
    assert len(report.pairs) == columns * (columns - 1) // 2 and len(report.grids) == 200
    assert len(render(report).encode()) < most


def browser():
    return next(
        (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
    )


def drawn(page, folder):
    return subprocess.run(
        [
            *(browser(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            *("--allow-file-access-from-files", f"--user-data-dir={folder / 'profile'}"),
            *("--virtual-time-budget=2000", "--dump-dom", page.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout


@pytest.mark.skipif(browser() is None, reason="no Chromium on the PATH")
@pytest.mark.parametrize("edition", ["private", "releasable"])
def test_nothing_sticks_out_on_a_phone_and_the_map_can_be_sorted(edition, request, tmp_path):
    write(request.getfixturevalue(edition), tmp_path / "r.html")
    frame = tmp_path / "frame.html"
    frame.write_text("""<iframe src="r.html" style="width:390px;height:800px"></iframe><script>
      addEventListener("load",function(){var page=document.querySelector("iframe").contentDocument;
      var wide=page.documentElement.scrollWidth,shown=function(id){return page.getElementById(id).clientWidth>0?1:0};
      var before=[shown("pair-map"),shown("pair-map-sorted")];page.getElementById("worst-first").click();
      document.title="wide="+wide+" maps="+before.concat([shown("pair-map"),shown("pair-map-sorted")]).join("");});
      </script>""")
    title = re.search(r"<title>wide=(\d+) maps=(\d+)</title>", drawn(frame, tmp_path))
    assert int(title[1]) <= 390 and title[2] == "1001"


@pytest.mark.skipif(browser() is None, reason="no Chromium on the PATH")
@pytest.mark.parametrize("edition", ["private", "releasable"])
def test_a_browser_draws_the_plots(edition, request, tmp_path):
    report = request.getfixturevalue(edition)
    page, _ = write(report, tmp_path / "r.html")
    probe = """<script>addEventListener("load",function(){
      var drawn=[].filter.call(document.querySelectorAll(".card svg,#pair-map,details[open] svg"),function(s){
        var b=s.getBoundingClientRect();return b.width>50&&b.height>20&&s.querySelector("path").getTotalLength()>0;});
      location.hash="#"+document.querySelectorAll("details")[0].id;
      var find=document.querySelector(".search");find.value="ag";find.dispatchEvent(new Event("input"));
      var shown=document.querySelectorAll(".card:not([hidden])").length;
      document.title="drawn="+drawn.length+" shown="+shown;});</script>"""
    page.write_text(page.read_text().replace("</body>", probe + "</body>"))
    dom = drawn(page, tmp_path)
    title = re.search(r"<title>drawn=(\d+) shown=(\d+)</title>", dom)
    opened = min(len(report.grids), 6)
    assert int(title[1]) == len(report.columns) + 1 + opened
    assert int(title[2]) == 1


def test_a_report_without_a_model_says_how_to_add_one(real, synth, codec):
    page = render(measure_private(real, synth, codec))
    assert "--model MODEL" in page and 'id="ledger"' not in page and 'id="noise"' not in page


def test_stamps_are_shown(releasable):
    page = render(replace(releasable, stamps=("NOT PRIVATE: for tests",)))
    assert "<b>NOT PRIVATE</b>: for tests" in page


@pytest.mark.skipif(browser() is None, reason="no Chromium on the PATH")
def test_the_page_is_read_in_the_dark_on_paper_and_by_keyboard(private, releasable, tmp_path):
    playwright = pytest.importorskip("playwright.sync_api", reason="the page is driven by playwright")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=browser(), args=["--no-sandbox", "--disable-gpu"])
        for report in (private, releasable):
            page = chromium.new_page()
            page.goto(write(report, tmp_path / f"{report.edition}.html")[0].as_uri())
            assert page.evaluate(NESTED) == 0  # an image with links inside cannot be reached by its parts
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                assert page.evaluate(CONTRAST) >= 4.5, scheme
            assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 29)"
            page.emulate_media(media="print", color_scheme="dark")
            page.set_viewport_size({"width": 690, "height": 1000})  # the width of A4 between its margins
            assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
            assert page.evaluate("document.documentElement.scrollWidth") <= 690
            page.close()
        chromium.close()
