"""Reports in a real browser: a headless Chromium, driven by Playwright. Skipped where either is missing."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from grpo_plan.cli.main import main

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Dialog, Page

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
Command = Callable[..., dict[str, Any] | str]


def chromium() -> str | None:
    """A browser of this machine: of the environment variable, or on the path."""
    return os.environ.get("GRPO_PLAN_CHROMIUM") or next(
        (found for name in NAMES if (found := shutil.which(name))), None
    )


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="needs the extra browser (pip install 'grpo-plan[browser]')", exc_type=ImportError
    )
    path = chromium()
    if path is None:
        pytest.skip("no Chromium on the path (set GRPO_PLAN_CHROMIUM to one)")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield started
        started.close()


@dataclass(kw_only=True)
class Opened:
    """A page, and everything that it did which a report must not do.

    Attributes:
        page: The page.
        requests: Addresses that it asked for.
        said: Console messages and errors that no script caught.
        dialogs: Texts of dialogs.
    """

    page: Page
    requests: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    def assert_quiet(self) -> None:
        """No message, no dialog, and no request but the file itself."""
        assert self.said == []
        assert self.dialogs == []
        assert [address for address in self.requests if not address.startswith(("file:", "data:"))] == []
        assert len({address.partition("#")[0] for address in self.requests if address.startswith("file:")}) == 1


Open = Callable[..., Opened]


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Open a file, quietly; ``width``, ``dark``, ``javascript``, ``fragment`` as asked."""
    contexts: list[BrowserContext] = []

    def call(
        path: Path, *, width: int = 1200, dark: bool = False, javascript: bool = True, fragment: str = "", **more: Any
    ) -> Opened:
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            java_script_enabled=javascript,
            reduced_motion="reduce",
            **more,
        )
        contexts.append(context)
        opened = Opened(page=context.new_page())
        opened.page.on("request", lambda request: opened.requests.append(request.url))
        opened.page.on("console", lambda message: opened.said.append(f"{message.type}: {message.text}"))
        opened.page.on("pageerror", lambda error: opened.said.append(f"error: {error}"))

        def dismiss(dialog: Dialog) -> None:
            opened.dialogs.append(dialog.message)
            dialog.dismiss()

        opened.page.on("dialog", dismiss)
        opened.page.goto(path.as_uri() + fragment)
        return opened

    yield call
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pilots and a run, and no report yet."""
    place = tmp_path_factory.mktemp("reports")
    call = caller(place)
    call("example", "pilot.jsonl")
    call("example", "run.jsonl", "--run")
    rng = np.random.default_rng(7)
    write(
        place / "strata.jsonl", rng.beta(0.5, 0.9, 240), lambda i: {"stratum": ("easy", "middling", "hard")[i % 3]}, rng
    )
    write(place / "dead.jsonl", np.zeros(60), lambda i: {}, rng)
    rates = rng.beta(0.6, 0.9, 200)
    lines = []
    for temperature, power in ((0.6, 1.3), (1.0, 1.0), (1.4, 0.8)):
        for i, p in enumerate(rates**power):
            row = {
                "prompt_id": f"q{i}",
                "temperature": temperature,
                "successes": int(rng.binomial(8, p)),
                "rollouts": 8,
            }
            lines.append(json.dumps(row))
    (place / "temperatures.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    graded = [
        json.dumps({"prompt_id": f"q{i}", "reward": float(rng.binomial(4, p)) / 4})
        for i, p in enumerate(rng.beta(0.7, 0.7, 120))
        for _ in range(8)
    ]
    (place / "graded.jsonl").write_text("\n".join(graded) + "\n", encoding="utf-8")
    return place


def write(path: Path, rates: Any, more: Callable[[int], dict[str, Any]], rng: np.random.Generator) -> None:
    """A table of counts."""
    rows = (
        {"prompt_id": f"q{i}", "successes": int(rng.binomial(8, p)), "rollouts": 8, **more(i)}
        for i, p in enumerate(rates)
    )
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def caller(place: Path) -> Command:
    """The command line in this process, in a folder; JSON answers are parsed."""

    def call(*arguments: object) -> dict[str, Any] | str:
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as out:
            patch.chdir(place)
            patch.setattr(sys, "argv", ["grpo-plan", *map(str, arguments)])
            patch.setattr(sys, "stderr", said := StringIO())
            with pytest.raises(SystemExit) as exit_:
                main()
            assert exit_.value.code in (None, 0), f"{arguments}: {said.getvalue()}"
        text = out.getvalue()
        parsed: dict[str, Any] | str = json.loads(text) if text.startswith("{") else text
        return parsed

    return call


@pytest.fixture(scope="session")
def command(folder: Path) -> Command:
    return caller(folder)


@pytest.fixture(scope="session")
def reports(folder: Path, command: Command, browser: Browser) -> dict[str, Path]:
    """Reports by name: everything, strata, temperatures, an all-dead pilot, thresholds, a run alone."""
    budget = ("--budget-rollouts", "2e6", "--steps", "500")
    made = {
        "full": ("pilot.jsonl", "run.jsonl", *budget, "--trainer", "trl"),
        "strata": ("strata.jsonl", "--stratum-column", "stratum"),
        "temperatures": ("temperatures.jsonl", *budget),
        "dead": ("dead.jsonl", *budget),
        "graded": ("graded.jsonl", "--thresholds", "0.5,0.75,1", "--prompts-per-step", "64", "--steps", "100"),
        "run": ("run.jsonl",),
    }
    for name, words in made.items():
        command("report", *words, "-o", f"{name}.html", "--date", "2026-01-02T03:04:05+00:00")
    return {name: folder / f"{name}.html" for name in made}
