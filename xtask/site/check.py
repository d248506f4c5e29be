"""Checks the built site: `python check.py target/site`.

- Each link to a page, an anchor or a file of the site has a target, and so has each link to a file of the repository.
- Nothing is loaded from another server: no script, style, font or picture.
- A first visit transfers less than 200 kB, whatever the page.
- Each page has an absolute canonical address, a title and one heading of the first level.
"""

from __future__ import annotations

import gzip
import html.parser
import os
import pathlib
import posixpath
import re
import sys
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT = 200_000
# What a page loads beside itself, by tag, attribute and a condition on its other attributes.
LOADED = {"script": "src", "img": "src", "source": "src", "iframe": "src", "video": "src", "audio": "src"}
# Text is transferred compressed.
TEXT = {".html", ".css", ".js", ".svg", ".json", ".xml"}
# Documentation of the APIs comes from other generators; only links into it are checked.
FOREIGN = ("api/javascript/", "api/kotlin/", "api/rust/")


class Page(html.parser.HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.canonical = ""
        self.headings = 0
        self.feed(text)

    def handle_starttag(self, tag: str, pairs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in pairs}
        self.anchors |= {attributes[name] for name in ("id", "name") if name in attributes}
        self.headings += tag == "h1"
        if tag == "a" and "href" in attributes:
            self.links.append(attributes["href"])
        if (name := LOADED.get(tag)) and name in attributes:
            self.loads.append(attributes[name])
        if tag == "link":
            relation = attributes.get("rel", "").split()
            if "canonical" in relation:
                self.canonical = attributes["href"]
            elif {"stylesheet", "icon", "preload", "modulepreload", "preconnect", "dns-prefetch"} & set(relation):
                self.loads.append(attributes["href"])


def transferred(path: pathlib.Path) -> int:
    data = path.read_bytes()
    return len(gzip.compress(data, 6)) if path.suffix in TEXT else len(data)


def main(site: pathlib.Path, repository: str) -> int:
    files = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    pages = {name: Page((site / name).read_text("utf-8")) for name in sorted(files) if name.endswith(".html") and not name.startswith(FOREIGN)}
    sizes = {name: transferred(site / name) for name in files if not name.startswith(FOREIGN)}
    wrong: list[str] = []
    heaviest = (0, "")
    links = 0
    # The theme's script starts the worker of the search.
    always = [name for name in files if re.fullmatch(r"assets/javascripts/workers/search\.\w+\.min\.js", name)]

    for name, page in pages.items():
        folder = posixpath.dirname(name)

        def target(link: str) -> str:
            """The file that a link inside the site leads to, or an empty text."""
            path = urllib.parse.unquote(link)
            place = posixpath.normpath(posixpath.join("/", "" if path.startswith("/") else folder, path)).lstrip("/")
            index = posixpath.join(place, "index.html")
            return place if place in files else index if index in files else ""

        for link in page.links:
            links += 1
            path, _, anchor = link.partition("#")
            if path.startswith(f"{repository}/blob/main/") or path.startswith(f"{repository}/tree/main/"):
                if not (ROOT / path.removeprefix(repository).split("/", 3)[3]).exists():
                    wrong.append(f"{name}: {link} names a file that is not in the repository")
            elif not re.match(r"[a-z]+:", path):
                found = target(path) if path else name
                if not found:
                    wrong.append(f"{name}: the link {link} leads nowhere")
                elif anchor and found in pages and urllib.parse.unquote(anchor) not in pages[found].anchors:
                    wrong.append(f"{name}: {link} names an anchor that {found} lacks")
        weight = sizes[name] + sum(sizes[path] for path in always)
        for link in set(page.loads):
            if link.startswith("data:"):
                continue
            if re.match(r"([a-z]+:)?//", link):
                wrong.append(f"{name}: loads {link} from another server")
            elif not (found := target(link.split("?")[0])):
                wrong.append(f"{name}: loads {link}, which is not there")
            else:
                weight += sizes[found]
        heaviest = max(heaviest, (weight, name))
        if weight >= LIMIT:
            wrong.append(f"{name}: a first visit transfers {weight:,} bytes; the limit is {LIMIT:,}")
        if name != "404.html":
            if not page.canonical.startswith("https://"):
                wrong.append(f"{name}: has no absolute canonical address, but {page.canonical!r}")
            if page.headings != 1:
                wrong.append(f"{name}: has {page.headings} headings of the first level")

    for name in files:
        if name.endswith(".css") and not name.startswith(FOREIGN):
            for url in re.findall(r"(?:url\(|@import\s*)[\"']?((?:https?:)?//[^\"')]+)", (site / name).read_text("utf-8")):
                wrong.append(f"{name}: loads {url} from another server")

    for line in wrong:
        print(line)
    print(f"{len(pages)} pages, {links} links; heaviest first visit {heaviest[0]:,} bytes ({heaviest[1]}), limit {LIMIT:,}")
    print(f"the search index, loaded when the search is opened: {sizes['search/search_index.json']:,} bytes")
    return 1 if wrong or not pages else 0


if __name__ == "__main__":
    config = (ROOT / "mkdocs.yml").read_text("utf-8")
    default = re.search(r'TIDEGATE_REPO_URL, "([^"]+)"', config)
    assert default is not None, "mkdocs.yml has no repo_url"
    sys.exit(main(pathlib.Path(sys.argv[1]), os.environ.get("TIDEGATE_REPO_URL", default[1]).rstrip("/")))
