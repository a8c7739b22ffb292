"""What mkdocs does for this project beside its own work (`make docs`): README becomes the first page, every section of
docs/methods.md a page of its own, and every page of docs/ its place in the menu, known or not."""

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

MENU: dict[str, list[str]] = {
    "Start": ["index.md", "quickstart.md", "tutorial.md", "faq.md"],
    "Use": ["games.md", "viewer.md", "audit.md", "own-code.md", "reference.md"],
    "Methods": ["methods.md", "methods/*", "with-the-score.md", "objects.md"],
    "Evidence": ["what-holds.md", "results.md", "earlier-results.md", "benchmark.md", "performance.md", "glossary.md"],
    "Inside": ["paper.md", "architecture.md", "contributing.md", "changelog.md", "releasing.md"],
}
"""Pages in their order; those that are not there are left out, those that nobody put here come last."""

BESIDE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Files of the root that are pages, too."""


def method_pages(text: str) -> dict[str, str]:
    """docs/methods.md -> {'methods/rnd.md': its section as a page}."""
    pages = {}
    for part in re.split(r"(?m)^(?=## )", text)[1:]:
        heading = part.splitlines()[0].removeprefix("## ").strip()
        name = re.sub(r"[^a-z0-9-]+", "-", heading.lower()).strip("-")
        pages[f"methods/{name}.md"] = re.sub(r"(?m)^#(#+ )", r"\1", deeper(part))
    return pages


def deeper(text: str) -> str:
    """Links of a page that moves one folder down; its own headings are on the page it came from."""

    def moved(match: re.Match[str]) -> str:
        target = match[1]
        if target.startswith("http"):
            return match[0]
        return f"](../methods.md{target})" if target.startswith("#") else f"](../{target})"

    return re.sub(r"\]\(([^)\s]+)\)", moved, text)


def of_the_root(text: str) -> str:
    """Links of a file of the root, seen from docs/."""

    def moved(match: re.Match[str]) -> str:
        path, mark, heading = match[1].partition("#")
        if match[1].startswith(("http", "#")):
            return match[0]
        if path.startswith("docs/"):
            return f"]({path.removeprefix('docs/')}{mark}{heading})"
        return f"](../{path}{mark}{heading})"  # out of docs/; see `into_the_site`

    return re.sub(r"\]\(([^)\s]+)\)", moved, text)


def into_the_site(text: str) -> str:
    """Links of docs/ that lead out of it, to what is a page here or to a file that is only in the repository."""

    def moved(match: re.Match[str]) -> str:
        name = match[2]
        if (ROOT / "docs" / name.partition("#")[0]).is_file():  # of a page one folder down
            return match[0]
        return f"[{match[1]}]({BESIDE[name]})" if name in BESIDE else f"{match[1]} (`{name}` in the repository)"

    return re.sub(r"\[([^\]]*)\]\(\.\./([^)\s]+)\)", moved, text)


def menu(pages: list[str]) -> list[dict[str, Any]]:
    """The navigation over all pages that are there."""
    left, found = [page for page in sorted(pages) if page.endswith(".md")], []
    for title, wanted in MENU.items():
        own: list[str] = []
        for name in wanted:
            many = name.endswith("/*")
            own += [page for page in left if (page.startswith(name[:-1]) if many else page == name) and page not in own]
        left = [page for page in left if page not in own]
        if own:
            found.append({title: own})
    return [*found, {"More": left}] if left else found


def with_lists(text: str) -> str:
    """A list may follow its paragraph at once, as on GitHub; mkdocs wants an empty line between the two."""
    lines, in_code = list[str](), False
    for line in text.split("\n"):
        in_code ^= line.startswith("```")
        before = lines[-1] if lines else ""
        begins = re.match(r"([-*]|\d+\.) ", line) and before and not re.match(r"([-*]|\d+\.) |\s", before)
        if begins and not in_code:
            lines.append("")
        lines.append(line)
    return "\n".join(lines)


# What mkdocs calls ----------------------------------------------------------------------------------------------------


def generated() -> dict[str, str]:
    """Pages that are no file of docs/."""
    pages = {page: of_the_root((ROOT / name).read_text()) for name, page in BESIDE.items()}
    return pages | method_pages((ROOT / "docs" / "methods.md").read_text())


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for name, text in generated().items():
        files.append(File.generated(config, name, content=into_the_site(text)))
    config.nav = menu([file.src_uri for file in files])
    return files


def on_page_markdown(markdown: str, **_more: Any) -> str:
    return with_lists(into_the_site(markdown))
