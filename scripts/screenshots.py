"""Pictures of what people see, taken in a headless Chromium.

    python scripts/screenshots.py docs runs/mini-breakout-mega-s0    # the pictures of docs/viewer.md
    python scripts/screenshots.py site                               # every page of build/site, to look through

`docs` wants a run of `mega` on a mini game that plays well: `megareward train mega --game mini-breakout --frames 150k`.
It audits the run if nobody has, and writes into docs/images. `site` (after `make docs`) takes each page as a desktop
and as a phone show it, puts them on contact sheets in build/screenshots, and names what is broken: pages wider than the
window, pictures that are missing, errors of scripts.
"""

import argparse
import io
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image, ImageDraw

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the command line does, before torch is loaded
from megareward.cli import main as megareward  # noqa: E402
from megareward.viewer.live import Live, serve  # noqa: E402
from megareward.viewer.report import write_report  # noqa: E402
from tests.chromium import Browser, browsing  # noqa: E402

LARGEST = 150_000
"""Bytes of a picture in docs/images."""
DESKTOP, PHONE = (1280, 800), (390, 844)
READY = "document.body && document.body.dataset.ready"
LOADED = "document.readyState === 'complete'"


def save(picture: bytes, path: Path) -> None:
    """As a PNG of at most 256 colours."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    path.parent.mkdir(parents=True, exist_ok=True)
    image.quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(path, optimize=True)
    size = path.stat().st_size
    print(f"{path} ({size / 1000:.0f} kB, {image.width} x {image.height})")
    if size > LARGEST:
        sys.exit(f"{path} has {size:,} bytes; a picture of the documentation has at most {LARGEST:,}.")


def taken(browser: Browser, folder: Path) -> bytes:
    browser.picture(folder / "shot.png")
    return (folder / "shot.png").read_bytes()


@contextmanager
def window(folder: Path) -> Iterator[Callable[..., Browser]]:
    """A browser; calling it opens an address at a size and waits until the page is there."""
    with browsing(folder / "profile") as browser:

        def opened(url: str, size: tuple[int, int], ready: str = READY) -> Browser:
            browser.send("Page.navigate", url="about:blank")
            browser.complaints.clear()
            browser.resize(*size, phone=size == PHONE)
            browser.send("Emulation.setTouchEmulationEnabled", enabled=size == PHONE)
            browser.send("Page.navigate", url=url)
            browser.wait(ready)
            time.sleep(0.4)  # styles settle
            return browser

        yield opened


# Pictures of the documentation ----------------------------------------------------------------------------------------


def of_the_docs(run: Path, out: Path, step: int, audited_step: int) -> None:
    if not (run / "audit-trained.json").exists():
        megareward(["audit", str(run), "--policy", "trained"])
    with tempfile.TemporaryDirectory() as scratch, window(Path(scratch)) as opened:
        folder = Path(scratch)

        def watched(name: str, *words: str) -> str:
            if megareward(["watch", str(run), "--steps", "600", "--out", str(folder / name), *words]):
                sys.exit(f"`megareward watch {run} {' '.join(words)}` failed.")
            return (folder / name).as_uri()

        alone, two = watched("alone.html"), watched("two.html", "--beside", "random")
        audited = watched("audited.html", "--audited", "--policy", "trained")
        for size, kind in ((DESKTOP, "desktop"), (PHONE, "phone")):
            save(taken(opened(f"{alone}#t={step}", size), folder), out / f"viewer-{kind}.png")
            save(taken(opened(f"{two}#t={step}", size), folder), out / f"viewer-two-{kind}.png")
        save(taken(opened(f"{audited}#t={audited_step}&truth=1", DESKTOP), folder), out / "viewer-audited.png")
        for name, words in (("case-study", []), ("case-study-audited", ["--audited", "--policy", "trained"])):
            megareward(["figure", "case-study", "--run", str(run), "--out", str(folder / name), *words])
            save((folder / name).with_suffix(".png").read_bytes(), out / f"{name}.png")
        report = write_report([run], folder / "report.html").as_uri()
        save(taken(opened(report, (1000, 1100), LOADED), folder), out / "report.png")
        save(taken(opened(report, PHONE, LOADED), folder), out / "report-phone.png")
        live = Live(run)
        live.look()
        server = serve(live)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address, shown = f"http://127.0.0.1:{server.server_address[1]}/", "document.body && document.body.dataset.shown"
        game = f"{shown} && document.querySelector('iframe').contentDocument?.body?.dataset.ready"
        save(taken(opened(address, DESKTOP, game), folder), out / "live-desktop.png")
        save(taken(opened(address, PHONE, game), folder), out / "live-phone.png")
        server.shutdown()


# Every page of the site -----------------------------------------------------------------------------------------------

BROKEN_PICTURES = "[...document.images].filter(i => !i.complete || !i.naturalWidth).map(i => i.src)"


def of_the_site(site: Path, out: Path) -> None:
    pages = sorted(page for page in site.rglob("*.html") if page.name != "404.html")
    if not pages:
        sys.exit(f"{site} has no pages; `make docs` builds them.")
    faults = []
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, window(Path(scratch)) as opened:
        for size, kind, across in ((DESKTOP, "desktop", 4), (PHONE, "phone", 8)):
            pictures = []
            for page in pages:
                name = page.relative_to(site).with_suffix("").as_posix()
                browser = opened(page.as_uri(), size, LOADED)
                wide = browser.value("document.documentElement.scrollWidth")
                if wide > size[0]:
                    faults.append(f"{name} is {wide} pixels wide in a window of {size[0]}")
                faults += [f"{name}: {picture} is missing" for picture in browser.value(BROKEN_PICTURES)]
                faults += [f"{name}: {complaint}" for complaint in browser.complaints]
                path = out / f"{kind}-{name.replace('/', '-')}.png"
                browser.picture(path, whole=True)
                pictures.append((name, path))
            for number in range(0, len(pictures), across):
                sheet = out / f"sheet-{kind}-{number // across + 1}.png"
                contact_sheet(pictures[number : number + across], sheet, across)
    print(f"{len(pages)} pages, pictures in {out}.", *faults, sep="\n")
    sys.exit(1 if faults else 0)


def contact_sheet(
    pictures: list[tuple[str, Path]], path: Path, across: int, wide: int = 1900, tall: int = 1500
) -> None:
    """The beginnings of some pages side by side, named."""
    column = wide // across
    sheet = Image.new("RGB", (wide, tall), "#777")
    for i, (name, file) in enumerate(pictures):
        picture = Image.open(file).convert("RGB")
        small = picture.resize((column - 8, picture.height * (column - 8) // picture.width))
        sheet.paste(small.crop((0, 0, small.width, tall - 24)), (i * column, 24))
        ImageDraw.Draw(sheet).text((i * column + 4, 4), name, fill="white")
    sheet.save(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    docs = commands.add_parser("docs", help="the pictures of docs/viewer.md")
    docs.add_argument("run", type=Path)
    docs.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    docs.add_argument("--step", type=int, default=180, help="what the pictures of the viewer show")
    docs.add_argument("--audited-step", type=int, default=1583, help="the same, of the audit")
    site = commands.add_parser("site", help="every page of the built site")
    site.add_argument("--out", type=Path, default=ROOT / "build" / "screenshots")
    args = parser.parse_args()
    if args.command == "docs":
        of_the_docs(args.run, args.out, args.step, args.audited_step)
    else:
        of_the_site(ROOT / "build" / "site", args.out)
