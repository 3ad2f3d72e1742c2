"""The fields of the page give the command line's numbers, and the address holds the choice."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from grpo_plan.report.recompute import recompute
from tests.browser.conftest import Command, Open, Opened

REL = 1e-6  # the promise; what was seen is below 1e-11
TWIN_REL = 1e-9


def close(mine: Any, theirs: Any, where: str, rel: float) -> None:
    """Every number of mine as in theirs; keys of mine that theirs lack are ignored only where they are the page's own."""
    if isinstance(mine, dict) and isinstance(theirs, dict):
        for key in mine.keys() & theirs.keys():
            close(mine[key], theirs[key], f"{where}.{key}", rel)
    elif isinstance(mine, list) and isinstance(theirs, list):
        assert len(mine) == len(theirs), where
        for i, (a, b) in enumerate(zip(mine, theirs, strict=True)):
            close(a, b, f"{where}[{i}]", rel)
    elif isinstance(mine, (int, float)) and isinstance(theirs, (int, float)) and not isinstance(mine, bool):
        cancels = 1e-9 if "surplus" in where else 1e-280  # what is drawn less what is wanted
        assert mine == pytest.approx(theirs, rel=rel, abs=cancels), where
    else:
        assert mine == theirs, where


def choose(page: Any, **fields: Any) -> None:
    """Work the fields as a person does."""
    for name, value in fields.items():
        box = page.locator(f"#{name}")
        if isinstance(value, bool):
            box.set_checked(value)
        elif box.evaluate("box => box.tagName") == "SELECT":
            box.select_option(str(value))
        else:
            box.fill(str(value))
            box.press("Tab")


def result_of(opened: Opened) -> dict[str, Any]:
    found: dict[str, Any] = opened.page.evaluate("grpoPlan.whatIf.result()")
    return found


def printed(opened: Opened, command: Command, box: str) -> dict[str, Any]:
    """What the command that the page shows prints, run for real."""
    words = shlex.split(opened.page.locator(f"#{box}").inner_text())
    assert words[0] == "grpo-plan"
    answer = command(*words[1:], "--json")
    assert isinstance(answer, dict)
    return answer


def assert_as_printed(opened: Opened, command: Command) -> None:
    """The choice's numbers are those of the row of its G in the plan, and of the refill, that the commands print."""
    mine, plan = result_of(opened), printed(opened, command, "command")
    row = next(r for r in plan["frontier"] if r["group_size"] == mine["design"]["group_size"])
    for name in ("prompts_per_step", "steps", "rollouts_per_step"):
        assert mine["design"][name] == row[name]
    capped = mine["refill"] is not None and mine["refill"]["max_rounds"] is not None  # a plan knows no cap
    for name in ("dead", "cost") if capped else ("dead", "effective_batch", "cost", "noise_to_signal"):
        close(mine[name], row["signal"][name] if name == "noise_to_signal" else row[name], name, REL)
    ends = ["low"] if len(mine["progress"]) == 1 else ["low", "high"]
    for end, progress in zip(ends, mine["progress"], strict=True):
        assert progress["ratio"] == pytest.approx(row["signal"][f"progress_at_kappa_{end}"], rel=REL)
        limits = row["signal"][f"progress_at_kappa_{end}_limits"]
        if progress["low"] is not None:
            assert [progress["low"], progress["high"]] == pytest.approx(limits, rel=REL)
        answer = min(plan["sensitivity"], key=lambda s: abs(s["kappa"] - progress["kappa"]))
        assert (progress["best_group_size"], progress["flat_range"]) == (answer["group_size"], answer["flat_range"])
    assert (mine["refill"] is None) == (not opened.page.locator("#refill-command").is_visible())
    if mine["refill"] is not None:
        close(mine["refill"], printed(opened, command, "refill-command"), "refill", REL)


CHOICES: list[tuple[str, dict[str, Any]]] = [
    ("full", {}),
    ("full", {"size": 16}),
    ("full", {"size": 8, "fixed": "prompts-steps", "prompts": 128, "steps": 300, "kappa-one": True, "kappa": 17.3}),
    ("full", {"size": 64, "fixed": "prompts-budget", "prompts": 40, "budget": "1e6", "kappa-one": True, "kappa": 0.7}),
    ("full", {"size": 4, "refill-on": True, "multiplier": 1.5, "rounds": 10}),
    ("full", {"size": 12, "fixed": "prompts", "prompts": 1, "refill-on": True}),
    ("graded", {"preset": 1, "size": 8}),
    ("graded", {"preset": 2, "size": 16, "refill-on": True, "multiplier": 3, "kappa-one": True, "kappa": 40}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "fields"), CHOICES, ids=[f"{name}-{i}" for i, (name, _) in enumerate(CHOICES)])
def test_fields_give_the_numbers_of_the_command(
    name: str, fields: dict[str, Any], reports: dict[str, Path], open_page: Open, command: Command
) -> None:
    opened = open_page(reports[name])
    choose(opened.page, **fields)
    assert_as_printed(opened, command)
    opened.assert_quiet()


def test_the_script_is_the_twin_of_the_library(reports: dict[str, Path], open_page: Open) -> None:
    opened = open_page(reports["graded"])
    tables = opened.page.evaluate("grpoPlan.report.what_if")
    choices = []
    for i, size in enumerate(tables["presets"][0]["group_sizes"]):
        given = [(100 + 7 * i, 50, None), (None, 40, 10**6 + i), (3 * i + 1, None, 10**7), (2 ** (i % 15), None, None)][
            i % 4
        ]
        refill = i % 3 == 1
        choices.append(
            {
                **tables["start"], **dict(zip(("prompts_per_step", "steps", "budget_rollouts"), given, strict=True)),
                "preset": i % len(tables["presets"]), "group_size": size, "refill": refill,
                "batch_multiplier": 1.0 + i / 10 if refill and i % 2 else None, "gen_batch_size": None,
                "max_rounds": 1 + i % 7 if refill else None, "kappa": None if i % 2 else 0.3 + i,
            }
        )  # fmt: skip
    theirs = opened.page.evaluate(
        "choices => choices.map(c => grpoPlan.recompute(grpoPlan.report.what_if, c))", choices
    )
    feasible = 0
    for choice, found in zip(choices, theirs, strict=True):
        mine = json.loads(json.dumps(recompute(tables, choice)))
        feasible += mine["feasible"]
        assert set(mine) == set(found) - {"curves"}
        close(found, mine, json.dumps(choice), TWIN_REL)
    assert feasible > 0.8 * len(choices)


def test_sliders_move_the_numbers_and_the_pictures(reports: dict[str, Path], open_page: Open) -> None:
    opened = open_page(reports["full"])
    page = opened.page
    before = result_of(opened)
    assert not page.locator("#dead-picture svg.wide g.choice").is_visible()
    page.locator("#size-slider").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    after = result_of(opened)
    sizes = page.evaluate("grpoPlan.report.what_if.presets[0].group_sizes")
    assert sizes.index(after["design"]["group_size"]) == sizes.index(before["design"]["group_size"]) + 3
    assert page.locator("#size").input_value() == str(after["design"]["group_size"])
    told = page.locator("#told").inner_text()
    assert f"G = {after['design']['group_size']}" in told
    assert f"{after['dead']['value']:.3f}" in told
    gap = after["effective_batch"]["mixed_groups"]["mean"] - before["effective_batch"]["mixed_groups"]["mean"]
    assert 1.0 < abs(gap) < 99.0
    assert f"({gap:+.1f} beside the plan)" in told
    for name in ("dead", "batch", "frontier"):
        mark = page.locator(f"#{name}-picture svg.wide g.choice")
        assert mark.is_visible()
    place = page.evaluate(
        """() => { const svg = document.querySelector("#dead-picture svg.wide");
          const mark = svg.querySelector(".choice-mark").getBoundingClientRect();
          const dots = [...svg.querySelectorAll(".dot")].map((dot) => dot.getBoundingClientRect());
          const middle = (box) => [box.x + box.width / 2, box.y + box.height / 2];
          return Math.min(...dots.map((dot) => Math.hypot(middle(dot)[0] - middle(mark)[0], middle(dot)[1] - middle(mark)[1]))); }"""
    )
    assert place < 1.5  # the mark stands on the estimate's own dot
    page.locator("#prompts-slider").focus()
    page.keyboard.press("Home")
    assert result_of(opened)["design"]["prompts_per_step"] < after["design"]["prompts_per_step"]
    opened.assert_quiet()


def test_back_to_the_plan(reports: dict[str, Path], open_page: Open) -> None:
    opened = open_page(reports["full"])
    start, words = result_of(opened), opened.page.locator("#outcome").inner_text()
    assert opened.page.locator("#back").is_disabled()
    choose(opened.page, size=32, **{"refill-on": True, "kappa-one": True, "kappa": 5})
    assert result_of(opened) != start
    opened.page.locator("#back").click()
    assert result_of(opened) == start
    assert opened.page.locator("#outcome").inner_text() == words
    assert opened.page.evaluate("location.hash") in ("", "#")


def test_the_address_opens_the_same_choice(reports: dict[str, Path], open_page: Open) -> None:
    first = open_page(reports["graded"])
    choose(
        first.page, preset=1, size=10, prompts=77, **{"refill-on": True, "rounds": 4, "kappa-one": True, "kappa": 2.5}
    )
    fragment = first.page.evaluate("location.hash")
    again = open_page(reports["graded"], fragment=fragment)
    assert again.page.evaluate("grpoPlan.whatIf.choice()") == first.page.evaluate("grpoPlan.whatIf.choice()")
    assert again.page.locator("#outcome").inner_text() == first.page.locator("#outcome").inner_text()
    again.page.evaluate("location.hash = ''")
    again.page.wait_for_function("grpoPlan.whatIf.choice().preset === 0")
    again.page.locator("nav a[href='#dead']").click()
    assert again.page.evaluate("location.hash") == "#dead"


@pytest.mark.parametrize(
    "fragment",
    [
        "#;g=7777&steps=5",
        "#;g=8&prompts=-3",
        "#;preset=9&g=8&prompts=5",
        "#;g=8&prompts=1e99",
        "#;__proto__=1&g=8",
        "#;%E0%A4%A",
        "#;kappa=NaN&g=8&prompts=8",
    ],
)
def test_an_address_that_this_report_cannot_make_is_the_plan(
    fragment: str, reports: dict[str, Path], open_page: Open
) -> None:
    opened = open_page(reports["full"], fragment=fragment)
    opened.assert_quiet()
    assert opened.page.evaluate("grpoPlan.whatIf.choice()") == opened.page.evaluate("grpoPlan.report.what_if.start")
    said = opened.page.locator("#told").inner_text()
    assert ("cannot make" in said) == (";" in fragment)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("prompts", "0", "Prompts a step"),
        ("prompts", "", "Prompts a step"),
        ("prompts", "2.5", "whole"),
        ("kappa", "-1", "kappa must be"),
        ("rounds", "0", "cap on rounds"),
    ],
)
def test_a_field_outside_its_range_says_so(
    field: str, value: str, words: str, reports: dict[str, Path], open_page: Open
) -> None:
    opened = open_page(reports["full"])
    choose(opened.page, fixed="prompts-steps", **{"kappa-one": True, "refill-on": True})
    before = result_of(opened)
    choose(opened.page, **{field: value})
    assert words in opened.page.locator("#told").inner_text()
    assert opened.page.locator(f"#{field}").get_attribute("aria-invalid") == "true"
    assert result_of(opened) == before
    assert "those of the choice before" in opened.page.locator("#told").inner_text()
    assert opened.page.locator("#choice-form button.copy:enabled").count() == 0
    choose(opened.page, **{field: 3})
    assert opened.page.locator("#choice-form button.copy:disabled").count() == 0
    assert opened.page.locator(f"#{field}").get_attribute("aria-invalid") is None
    assert words not in opened.page.locator("#told").inner_text()
    opened.assert_quiet()


def test_a_capped_refill_is_said_and_a_budget_that_it_breaks(reports: dict[str, Path], open_page: Open) -> None:
    opened = open_page(reports["full"], fragment="#;g=8&prompts=128&steps=500&refill=1&cap=1")
    said = opened.page.locator("#told").inner_text()
    assert "at most 1 round draws 128 prompts, and a step holds" in said
    assert "of the 128 wanted" in said
    assert "512,000" in opened.page.locator("#outcome").inner_text()
    over = open_page(reports["full"], fragment="#;g=16&steps=100&budget=400000&refill=1")
    assert "% over the budget" in over.page.locator("#told").inner_text()
    opened.assert_quiet()


def test_a_hundred_million_prompts_are_drawn(reports: dict[str, Path], open_page: Open) -> None:
    opened = open_page(reports["full"])
    opened.page.evaluate("grpoPlan.report.what_if.ranges.prompts_per_step[1] = 1e9")  # as of a plan of that size
    choose(opened.page, fixed="prompts", prompts=100_000_000)
    assert result_of(opened)["design"]["prompts_per_step"] == 100_000_000
    assert opened.page.locator("#spread-picture").is_visible()
    opened.assert_quiet()


def test_a_budget_that_pays_for_nothing_is_said(reports: dict[str, Path], open_page: Open) -> None:
    opened = open_page(reports["full"])
    choose(opened.page, size=64, fixed="prompts-budget", prompts=1000, budget=100)
    assert "does not pay" in opened.page.locator("#told").inner_text()
    assert opened.page.locator("#outcome tbody tr").count() == 0
    opened.assert_quiet()


@pytest.mark.parametrize("clipboard", [True, False])
def test_copying(clipboard: bool, reports: dict[str, Path], open_page: Open) -> None:
    more = {"permissions": ["clipboard-read", "clipboard-write"]}
    opened = open_page(reports["full"], **more)
    page = opened.page
    if not clipboard:
        page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    button = page.locator("#trainer button.copy")
    button.click()
    page.wait_for_function("document.getElementById('said').textContent === 'Copied.'")
    assert button.inner_text().startswith("Copied")
    block = page.evaluate("grpoPlan.report.trainer.block")
    if clipboard:
        assert page.evaluate("navigator.clipboard.readText()") == block
    else:
        assert page.evaluate("getSelection().toString()").strip() == block.strip()
    opened.assert_quiet()
