"""docs/faq.md answers what was asked, each time with a command that is run (tests/test_docs.py compares its output)."""

from __future__ import annotations

import re

import pytest

from tests.conftest import ROOT

PAGE = (ROOT / "docs/faq.md").read_text(encoding="utf-8")
TWENTY = (
    "jsboige/CoursIA/issues/10603",
    "jsboige/CoursIA/pull/10626",
    "huggingface/trl/issues/3857",
    "modelscope/ms-swift/issues/4570",
    "unslothai/unsloth/issues/2291",
    "OpenRLHF/OpenRLHF/issues/1270",
    "oumi-ai/oumi/pull/2646",
    "PrimeIntellect-ai/verifiers/discussions/3071",
    "verl-project/verl/issues/953",
    "BytedTsinghua-SIA/DAPO/issues/28",
    "verl-project/verl/issues/876",
    "verl-project/verl/issues/991",
    "huggingface/trl/issues/3708",
    "OpenRLHF/OpenRLHF/issues/1310",
    "PrimeIntellect-ai/prime-rl/pull/636",
    "modelscope/ms-swift/issues/8429",
    "huggingface/trl/issues/3061",
    "unslothai/unsloth/issues/3572",
    "PrimeIntellect-ai/prime/pull/488",
    "NVIDIA-NeMo/RL/issues/3117",
)
SECTIONS = {s.partition("\n")[0]: s.partition("\n")[2] for s in re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]}
SILENT = ("grpo-plan example ",)


def slug(heading: str) -> str:
    """The anchor that code-hosting sites and the documentation give to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def commands(section: str) -> list[tuple[str, str]]:
    """Commands of a section's console blocks, each with what is printed below it."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```", section, re.DOTALL | re.MULTILINE):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


@pytest.mark.parametrize("thread", TWENTY)
def test_the_twenty_public_questions_are_answered_by_a_command(thread: str) -> None:
    asked = [body for body in SECTIONS.values() if f"](https://github.com/{thread})" in body]
    assert len(asked) == 1, thread
    assert commands(asked[0])


@pytest.mark.parametrize("question", SECTIONS)
def test_an_answer_is_short_and_its_commands_say_something(question: str) -> None:
    body = SECTIONS[question]
    prose = re.sub(r"^Asked .*?\n\n", "", body.partition("```")[0].strip() + "\n\n", flags=re.DOTALL)
    assert 2 <= len(re.findall(r"[.:?](?=\s|$)", prose)) <= 9, question
    assert len(prose.split()) <= 110, question
    shown = commands(body)
    assert shown, question
    for command, output in shown:
        assert output.strip() or command.startswith(SILENT) or " > " in command, command


def test_the_table_on_top_links_every_question_in_order() -> None:
    table = PAGE.partition("\n## ")[0]
    rows = re.findall(r"^\| \[(.+)\]\(#(.+)\) \| (.*)\|$", table, re.MULTILINE)
    assert [text for text, _, _ in rows] == list(SECTIONS)
    assert [anchor for _, anchor, _ in rows] == [slug(text) for text in SECTIONS]
    for text, _, source in rows:
        assert source.strip() == ", ".join(re.findall(r"\[([^\]]+)\]\(https://github.com/", SECTIONS[text])), text


@pytest.mark.parametrize(
    ("start", "numbers"),
    [("I have two reward", ("14 of 128", "53")), ("The status is `POOLED", ("25 %", "30 %"))],
)
def test_numbers_of_an_answer_are_those_of_its_commands(start: str, numbers: tuple[str, ...]) -> None:
    body = next(text for heading, text in SECTIONS.items() if heading.startswith(start))
    words, outputs = body.partition("```")[0], "".join(output for _, output in commands(body))
    for number in numbers:
        assert number in words
        assert number in outputs
