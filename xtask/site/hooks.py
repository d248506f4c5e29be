"""Hooks of MkDocs: complete the navigation, and turn pages that are written for a forge into pages of the site.

- `...pattern` in the navigation stands for the pages that match the pattern and are named nowhere else.
- HTML comments hold blocks that only tests run; they are removed. So are the hidden lines of Rust's blocks.
- A link to a file outside `docs/` leads to the repository.
"""

from __future__ import annotations

import fnmatch
import os
import pathlib
import posixpath
import re
import shutil
from typing import Any

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>```+)(?P<info>[^\n]*)\n(?P<code>.*?)^ *(?P=ticks) *$", re.DOTALL | re.MULTILINE)
# The folder of what `cargo xtask site --api` has generated.
API = pathlib.Path(os.environ["TIDEGATE_SITE_API"]) if "TIDEGATE_SITE_API" in os.environ else None
PAGES_OF_API = [("Python", "python/tidegate.md", "mkdocstrings"), ("Swift", "swift.md", "the compiler's symbol graph")]
HTML_OF_API = [
    ("JavaScript and TypeScript", "javascript/index.html", "TypeDoc"),
    ("Kotlin", "kotlin/index.html", "Dokka"),
    ("Rust", "rust/tidegate_tokio/index.html", "rustdoc"),
    ("Rust, the engine", "rust/tidegate/index.html", "rustdoc"),
]
MODULES = ["tidegate", *(f"tidegate.{name}" for name in ["httpx", "requests", "urllib3", "aiohttp", "parts", "fleet", "testing", "events", "prometheus", "opentelemetry"])]
LINK = re.compile(r"(\]\()((?!https?:|mailto:|#)[^)\s]+)(\))")


def on_config(config: Any) -> Any:
    pages = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
    named = set(_named(config["nav"]))
    left = [page for page in pages if page not in named]
    # Narrow patterns choose first, so that `...*` gets what no other pattern names.
    chosen: dict[str, list[str]] = {}
    for pattern in sorted(_patterns(config["nav"]), key=lambda pattern: pattern.count("/") == 0 and pattern == "*"):
        chosen[pattern] = [page for page in left if _matches(page, pattern)]
        left = [page for page in left if page not in chosen[pattern]]
    config["nav"] = _filled(config["nav"], chosen)
    if API is not None:
        pages = [page for page, _ in _api(API)]
        [reference] = [item["Reference"] for item in config["nav"] if "Reference" in item]
        python = [page for page in pages if page.startswith("api/python/")]
        others = [page for page in pages if page not in python]
        reference.append({"API": [*others, {"Python": python}]})
    return config


def on_files(files: Any, config: Any) -> Any:
    for page, text in _api(API) if API is not None else []:
        files.append(File.generated(config, page, content=text))
    return files


def _api(folder: pathlib.Path) -> list[tuple[str, str]]:
    """The pages of the languages' APIs. `folder` has Markdown, and folders of HTML that are copied beside the pages."""
    rows = [f"| [{name}]({page}) | {maker} |" for name, page, maker in PAGES_OF_API if page == "python/tidegate.md" or (folder / page).exists()]
    rows += [f'| <a href="{path}">{name}</a> | {maker} |' for name, path, maker in HTML_OF_API if (folder / path).exists()]
    index = "# API\n\nEvery public name, from the sources.\n\n| Language | Made by |\n|---|---|\n" + "\n".join(rows) + "\n"
    pages = [("api/index.md", index)]
    pages += [(f"api/{path.name}", path.read_text("utf-8")) for path in sorted(folder.glob("*.md"))]
    for module in MODULES:
        pages.append((f"api/python/{module}.md", f"# {module}\n\n::: {module}\n"))
    return pages


def _named(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [] if nav.startswith("...") else [nav]
    items = nav.values() if isinstance(nav, dict) else nav
    return [name for item in items for name in _named(item)]


def _patterns(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav[3:]] if nav.startswith("...") else []
    items = nav.values() if isinstance(nav, dict) else nav
    return [pattern for item in items for pattern in _patterns(item)]


def _matches(page: str, pattern: str) -> bool:
    return page.count("/") == pattern.count("/") and fnmatch.fnmatchcase(page, pattern)


def _filled(nav: Any, chosen: dict[str, list[str]]) -> Any:
    if isinstance(nav, dict):
        return {key: _filled(value, chosen) for key, value in nav.items()}
    if isinstance(nav, str):
        return nav
    filled: list[Any] = []
    for item in nav:
        if isinstance(item, str) and item.startswith("..."):
            filled += chosen[item[3:]]
        else:
            item = _filled(item, chosen)
            if item != {} and not (isinstance(item, dict) and list(item.values()) == [[]]):
                filled.append(item)
    return filled


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    if page.is_homepage:
        page.meta["hide"] = ["navigation", "toc"]
    text = re.sub(r"<!--.*?-->\n?", "", markdown, flags=re.DOTALL)
    text = FENCE.sub(_visible, text)
    folder = posixpath.dirname(page.file.src_uri)

    def link(found: re.Match[str]) -> str:
        return found[1] + _target(found[2], folder, config["repo_url"]) + found[3]

    return _outside_fences(text, lambda prose: LINK.sub(link, prose))


def _visible(fence: re.Match[str]) -> str:
    """A block without the lines that rustdoc hides."""
    if not fence["info"].startswith("rust"):
        return fence[0]
    lines = [line for line in fence["code"].splitlines(keepends=True) if not re.match(r" *#( |$)", line)]
    indent, ticks = fence["indent"], fence["ticks"]
    return f"{indent}{ticks}rust\n{''.join(lines).strip(chr(10))}\n{indent}{ticks}"


def _outside_fences(text: str, change: Any) -> str:
    parts, end = [], 0
    for fence in FENCE.finditer(text):
        parts += [change(text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(text[end:])])


def _target(link: str, folder: str, repository: str) -> str:
    path, mark, anchor = link.partition("#")
    place = posixpath.normpath(posixpath.join("docs", folder, path))
    if place == "docs" or place.startswith("docs/"):
        if (ROOT / place / "README.md").is_file():
            return posixpath.join(path, "README.md") + mark + anchor
        return link
    kind = "tree" if (ROOT / place).is_dir() else "blob"
    return f"{repository.rstrip('/')}/{kind}/main/{place}{mark}{anchor}"


def on_post_build(config: Any) -> None:
    """Makes the theme load the search index when the search is opened, as it does for `file:` addresses, and not with each
    page. Removes the theme's files that no page loads.
    """
    scripts = pathlib.Path(config["site_dir"], "assets/javascripts")
    shutil.rmtree(scripts / "lunr")
    for path in scripts.parent.rglob("*.map"):
        path.unlink()
    [bundle] = scripts.glob("bundle.*.min.js")
    text, count = re.subn(r'location\.protocol!=="file:"(?=\),\w+\("search"\))', "!1", bundle.read_text("utf-8"))
    if count != 1:
        raise RuntimeError(f"{bundle.name}: the condition that loads the search index was found {count} times, not once")
    bundle.write_text(text, "utf-8")
