"""The HTML edition: what its pages say, and what a browser makes of them.

The last tests drive the system's Chromium by playwright (the extra `browser`), and axe
looks for what readers with little sight would miss; they are skipped where one of the
three is not installed.  axe-core comes from npm; AXE names its `axe.min.js`.
"""

from __future__ import annotations

import functools
import http.server
import os
import re
import shutil
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag

import pytest

from minijit.book import page_prose
from minijit.book.project import find_book

pytest.importorskip("mistune")
pytest.importorskip("latex2mathml")
from minijit.book.measure import measure
from minijit.book.notebook import load
from minijit.book.page_cells import is_clear
from minijit.book.page_prose import prose, source_lines, spans
from minijit.book.pages import write_pages

pytestmark = pytest.mark.chapter(24)
root = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def edition(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All pages of the book; long texts without colours, which take the most time."""
    out = tmp_path_factory.mktemp("html")
    short = lambda x, kind="python": spans(x, kind if len(x) < 4000 else "text")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_prose, "spans", short)
        write_pages(find_book(root), None, out)
    return out


class Seen(HTMLParser):
    """What a page links to, loads, and has for ids; its pictures and headings."""

    def __init__(self, text: str):
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.ids: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.levels: list[int] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "a" and found.get("href"):
            self.links.append(str(found["href"]))
        elif tag == "link" or "src" in found:
            self.loads.append(str(found.get("href") or found.get("src")))
        if "id" in found:
            self.ids.append(str(found["id"]))
        if tag == "img":
            self.images.append(found)
        if re.fullmatch("h[1-6]", tag):
            self.levels.append(int(tag[1]))


@pytest.fixture(scope="module")
def pages(edition: Path) -> dict[str, Seen]:
    """page -> what was seen on it."""
    found = sorted(edition.rglob("*.html"))
    texts = {p.relative_to(edition).as_posix(): p.read_text("utf-8") for p in found}
    return {name: Seen(text) for name, text in texts.items()}


def test_every_notebook_and_every_library_file_has_a_page(pages: dict[str, Seen]):
    book = find_book(root)
    assert {f"{c.stem}.html" for c in book.written()} <= set(pages)
    assert {f"source/{file}.html" for file in book.library()} <= set(pages)


def test_a_caption_stands_in_its_figure_and_nowhere_else(edition: Path):
    text = (edition / "17_fusion.html").read_text("utf-8")
    captions = re.findall("<figcaption>(.*?)</figcaption>", text)
    assert len(captions) == text.count("<figure") > 0
    assert not any(f"<em>{caption}</em>" in text for caption in captions)


def test_links_lead_somewhere(edition: Path, pages: dict[str, Seen]):
    broken = []
    for name, seen in pages.items():
        for link in seen.links:
            if re.match("[a-z]+:", link):
                continue
            address, anchor = urldefrag(link)
            target = os.path.normpath((edition / name).parent / unquote(address))
            path = Path(target) if address else edition / name
            there = pages.get(path.relative_to(edition).as_posix())
            exists = path.exists() and path.suffix != ""
            if not exists or there and anchor and unquote(anchor) not in there.ids:
                broken.append(f"{name}: {link}")
    assert broken == []


def test_pages_ask_no_other_host_for_anything(edition: Path, pages: dict[str, Seen]):
    loads = {load for seen in pages.values() for load in seen.loads}
    assert not [load for load in loads if re.match("(https?:)?//", load)]
    for name in ("book.css", "book.js"):
        text = (edition / "web" / name).read_text("utf-8")
        assert "http" not in text and "@import" not in text


def test_pictures_say_what_they_show(pages: dict[str, Seen]):
    images = [image for seen in pages.values() for image in seen.images]
    assert len(images) > 100
    assert [i for i in images if not re.search(r"\w{3}", i.get("alt") or "")] == []


def test_the_edition_is_small(edition: Path):
    total = sum(p.stat().st_size for p in edition.rglob("*") if p.is_file())
    assert total < 30e6, f"{total / 1e6:.1f} MB"


def test_the_search_index_has_the_words_of_sections(edition: Path):
    text = (edition / "web" / "search.js").read_text("utf-8")
    assert text.startswith("found([") and '"One rule, two uses"' in text
    assert text.count("linearize") > 50


def test_heads_say_what_a_page_is_about(edition: Path):
    text = (edition / "08_transpose.html").read_text("utf-8")
    assert 'name="description" content="How much does each of a million' in text
    assert (edition / "web" / "icon.svg").exists() and (edition / "404.html").exists()
    index = (edition / "index.html").read_text("utf-8")
    assert "What the book builds" in index


def test_minutes_are_counted_by_one_function(edition: Path):
    """On a page, in the contents; those of chapter 0's map are held by `check`."""
    book = find_book(root)
    index = (edition / "index.html").read_text("utf-8")
    for chapter in book.written():
        told = f"About {measure(load(book.notebook(chapter))).minutes} minutes."
        page = (edition / f"{chapter.stem}.html").read_text("utf-8")
        assert f'</h1><p class="lasts">{told}</p>' in page
        listed = index.partition("<main")[2].partition(f'href="{chapter.stem}.html')[2]
        assert told in listed.partition("</li>")[0]


def test_a_report_opens_at_a_click(edition: Path):
    """It is on a page as in a notebook: not its text once more."""
    page = (edition / "tours/seeing.html").read_text("utf-8")
    assert page.count("<div class=minijit-report>") == 1
    assert "<details><summary><b>kernel_0</b>" in page and "<ins>" in page


def test_prose():
    assert prose("`x`, [b](c.md)") == '<p><code>x</code>, <a href="c.md">b</a></p>'
    math = prose("$$\\frac{a}{b}$$")
    assert "<math" in math and "<mfrac>" in math
    assert '<h2 id="Two-words">' in prose("## Two words")


def test_code():
    assert spans("def f(): pass").startswith('<span class="k">def</span> ')
    lines = source_lines('x = """a\nb"""\ny = 1\n')
    assert lines.count("<b id=") == 3 and lines.count("<span") == lines.count("</span")


def test_transparent_pictures_are_known(tmp_path: Path):
    image = pytest.importorskip("PIL.Image")
    for alpha in (0, 255):
        path = tmp_path / f"{alpha}.png"
        image.new("RGBA", (3, 2), (9, 9, 9, alpha)).save(path)
        assert is_clear(path.read_bytes()) == (alpha == 0)
    image.new("RGB", (3, 2)).save(path)
    assert not is_clear(path.read_bytes())


# In a browser

LOOKED_AT = [
    "index.html",
    "08_transpose.html",
    "tours/implicit_differentiation.html",
    "source/minijit/trace/core.py.html",
]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the test says what went wrong."""


@pytest.fixture(scope="module")
def address(edition: Path) -> Iterator[str]:
    """The edition on a server of this machine."""
    handler = functools.partial(Quiet, directory=str(edition))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The system's Chromium."""
    playwright = pytest.importorskip("playwright.sync_api")
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("there is no Chromium (apt-get install chromium)")
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 375])
def test_pages_in_a_browser(address: str, browser: Any, width: int, theme: str):
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme
    )
    page, wrong = context.new_page(), []
    page.on("console", lambda m: wrong.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda r: r.url.startswith(address) or wrong.append(r.url))
    wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    cut = """[...document.querySelectorAll('.flow pre')].filter(
        e => e.scrollWidth > e.clientWidth).map(e => e.textContent)"""
    allowed = ("data:",)
    for name in LOOKED_AT:
        page.goto(f"{address}/{name}")
        assert not page.evaluate(wide), f"{name} scrolls sideways"
        assert page.evaluate(cut) == [], f"{name} shows a part of a program"
    assert [text for text in wrong if not text.startswith(allowed)] == []
    context.close()


def test_search_in_a_browser(address: str, browser: Any):
    page = browser.new_page(viewport={"width": 375, "height": 700})
    page.goto(f"{address}/tours/types.html")
    page.fill("#words", "linearize")
    page.wait_for_selector("#found a")
    assert "jvp and linearize" in page.inner_text("#found a:first-of-type")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    page.wait_for_url("**/07_linearize.html#*")
    page.close()


def test_the_theme_and_the_menu(address: str, browser: Any):
    page = browser.new_page(viewport={"width": 375, "height": 700})
    page.goto(f"{address}/08_transpose.html")
    paper = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(paper)
    page.click("#theme")
    assert page.evaluate(paper) != before
    page.reload()
    assert page.evaluate(paper) != before
    assert not page.is_visible("#side")
    page.click("#menu")
    page.click("#side >> text=9 One more axis")
    page.wait_for_url("**/09_vmap.html")
    page.close()


def test_keys_copies_and_zoom(address: str, browser: Any):
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(f"{address}/08_transpose.html")
    section = page.locator("h2[id]").nth(1)
    section.evaluate("heading => heading.scrollIntoView()")
    page.wait_for_function(
        "id => document.querySelector('.here .now')?.closest('a').hash === '#' + id",
        arg=section.get_attribute("id"),
    )
    page.hover(".cell >> nth=0")
    page.click(".cell .copy >> nth=0")
    page.wait_for_selector("text=Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("%load_ext minijit.book\n%chapter 8")
    page.click("figure img >> nth=0")
    large = "document.querySelector('dialog.zoom img').width"
    small = "document.querySelector('figure img').width"
    assert page.evaluate(large) > page.evaluate(small)
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")
    page.fill("#words", "cotangent")
    page.wait_for_selector("#found a")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    found = "[...document.querySelectorAll('#found a')]"
    assert page.evaluate(f"{found}.indexOf(document.activeElement)") == 1
    page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("n")
    page.wait_for_url("**/09_vmap.html")
    page.keyboard.press("p")
    page.wait_for_url("**/08_transpose.html")
    context.close()


def test_nothing_is_cut_off_on_paper(address: str, browser: Any):
    """Dark or not, a page prints on white, and no line goes out of its box."""
    page = browser.new_context(color_scheme="dark").new_page()
    page.set_viewport_size({"width": 680, "height": 960})
    page.emulate_media(media="print")
    over = """[...document.querySelectorAll('pre, figure, .cell, .table')].filter(
        e => e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1)
        .map(e => e.outerHTML.slice(0, 200))"""
    for name in ("08_transpose.html", "17_fusion.html", "tours/seeing.html"):
        page.goto(f"{address}/{name}")
        paper = "getComputedStyle(document.body).backgroundColor"
        assert page.evaluate(paper) == "rgb(255, 255, 255)"
        assert page.evaluate(over) == [], name
        loaded = "[...document.images].every(i => i.complete && i.naturalWidth)"
        assert page.evaluate(loaded), name
        assert not page.is_visible(".top") and not page.is_visible(".side")
    page.context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(address: str, browser: Any, theme: str):
    axe = Path(os.environ.get("AXE", root / "node_modules/axe-core/axe.min.js"))
    if not axe.exists():
        pytest.skip("axe-core is not installed (npm install axe-core)")
    page = browser.new_context(color_scheme=theme).new_page()
    for name in LOOKED_AT:
        page.goto(f"{address}/{name}")
        page.evaluate(axe.read_text("utf-8"))
        run = "axe.run().then(r => r.violations.map(v => [v.id, v.nodes[0].html]))"
        assert page.evaluate(run) == [], name
    page.close()
