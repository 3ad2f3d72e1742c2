"""A report opens from disk, asks nothing of anyone, runs no foreign script, and is whole without JavaScript."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.browser.conftest import Command, Open

ALL = ("full", "strata", "temperatures", "dead", "graded", "run")
LARGEST = 2_000_000


@pytest.mark.parametrize("name", ALL)
def test_opens_from_disk_without_a_word(name: str, reports: dict[str, Path], open_page: Open) -> None:
    opened = open_page(reports[name])
    opened.page.wait_for_timeout(50)
    opened.assert_quiet()
    assert opened.page.locator("h1").inner_text().startswith("Report of ")
    assert reports[name].stat().st_size < LARGEST


def test_the_page_holds_the_documents_of_the_command(
    reports: dict[str, Path], open_page: Open, command: Command
) -> None:
    held = open_page(reports["strata"]).page.evaluate("grpoPlan.report")
    printed = command(
        "report", "strata.jsonl", "--stratum-column", "stratum", "--json", "--date", "2026-01-02T03:04:05+00:00"
    )
    assert isinstance(printed, dict)
    for document in (held, printed):
        document["provenance"].pop("command")  # which names the page
    assert held == printed


def test_foreign_scripts_styles_and_pictures_are_refused(reports: dict[str, Path], open_page: Open) -> None:
    opened = open_page(reports["dead"])
    sent: list[str] = []
    opened.page.on("requestfinished", lambda request: sent.append(request.url))
    found = opened.page.evaluate(
        """async () => {
          const blocked = [];
          document.addEventListener("securitypolicyviolation", (event) => blocked.push(event.effectiveDirective));
          const script = document.createElement("script");
          script.textContent = "window.ran = 1";
          document.body.append(script);
          document.body.insertAdjacentHTML("beforeend", '<p id="styled" style="color: red">x</p><img src="https://x.invalid/a.png">');
          const link = document.createElement("button");
          link.setAttribute("onclick", "window.ran = 2");
          document.body.append(link);
          link.click();
          try { await fetch("https://x.invalid/"); } catch { /* refused */ }
          await new Promise((done) => setTimeout(done, 100));
          return { ran: window.ran ?? null, blocked, colour: document.getElementById("styled").style.color };
        }"""
    )
    assert found["ran"] is None
    assert found["colour"] == ""
    kinds = {kind.split("-")[0] for kind in found["blocked"]}
    assert kinds >= {"script", "style", "img", "connect"}
    assert sent == []


def test_the_policy_names_no_unsafe_source(reports: dict[str, Path]) -> None:
    text = reports["full"].read_text(encoding="utf-8")
    policy = text.split('http-equiv="Content-Security-Policy" content="')[1].split('"')[0]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert policy.count("sha256-") == 2
    assert " style=" not in text.split("<script")[0]
    assert "http://" not in text.split("<script")[0].replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize("name", ["full", "strata"])
def test_without_javascript_all_but_the_what_if_is_there(name: str, reports: dict[str, Path], open_page: Open) -> None:
    page = open_page(reports[name], javascript=False).page
    assert "needs JavaScript" in page.locator("#what-if noscript").inner_text()
    assert not page.locator("#choice-form").is_visible()
    assert page.locator("svg[role=img]:visible").count() >= 5
    assert page.locator("figure table").count() >= 5
    assert page.locator("button:visible").count() == 0
    page.locator("#dead-picture summary").click()
    assert page.locator("#dead-picture-table tbody tr").count() > 10


@pytest.mark.parametrize("name", ALL)
def test_every_section_is_there_or_says_why_not(name: str, reports: dict[str, Path], open_page: Open) -> None:
    page = open_page(reports[name]).page
    document = page.evaluate("grpoPlan.report")
    reasons = {item["section"]: item["reason"] for item in document["missing"]}
    for link in page.locator("nav a").all():
        place = page.locator(link.get_attribute("href") or "")
        assert place.count() == 1
        assert len(place.inner_text().strip()) > 30
    for section, part in (
        ("temperatures", "temperature"),
        ("diagnosis", "diagnose"),
        ("refill", "refill"),
        ("trainer", "trainer"),
    ):
        if document[part] is None:
            told = " ".join(page.locator(f"#{section}").inner_text().split())
            assert " ".join(reasons[part].split()).rstrip(".") in told or "for the same reason as " in told


def test_the_data_cannot_end_their_element() -> None:
    from grpo_plan.report.page.rendering import for_script

    text = for_script({"a": "</script><!--\u2028&"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"a": "</script><!--\u2028&"}
