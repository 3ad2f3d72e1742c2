"""Shards of a pilot add up to it: by prompt where they name prompts, in any order and grouping."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import grpo_plan as gp
from grpo_plan.pilot import Pilot
from grpo_plan.provenance import Provenance

Table = dict[tuple[Any, ...], tuple[Any, ...]]


@st.composite
def shards(draw: st.DrawFn, *, histogram: bool = False) -> Pilot:
    size = draw(st.integers(1, 8))
    n = draw(st.lists(st.integers(1, 6), min_size=size, max_size=size))
    k = [draw(st.integers(0, m)) for m in n]
    stratum = draw(st.none() | st.lists(st.sampled_from(["x", "y", None]), min_size=size, max_size=size))
    temperature = draw(st.none() | st.lists(st.sampled_from([0.6, 1.0, np.nan]), min_size=size, max_size=size))
    common: dict[str, Any] = {
        "stratum": stratum,
        "temperature": temperature,
        "dropped": draw(REASONS),
        "notes": draw(NOTES),
    }
    if histogram:
        return Pilot.from_histogram(n, k, draw(st.lists(st.integers(1, 9), min_size=size, max_size=size)), **common)
    names: Any = draw(st.none() | st.lists(st.sampled_from(["a", "b", "c", 7, None]), min_size=size, max_size=size))
    lengths = draw(st.none() | st.lists(st.sampled_from([10.0, 25.0, 40.0, np.nan]), min_size=size, max_size=size))
    passing = None if lengths is None else [np.nan if j == 0 else t for j, t in zip(k, lengths, strict=True)]
    failing = None if lengths is None else [np.nan if j == m else t for j, m, t in zip(k, n, lengths, strict=True)]
    return Pilot.from_counts(
        k, n, prompt_id=names, response_tokens=lengths, pass_tokens=passing, fail_tokens=failing, **common
    )


REASONS = st.dictionaries(st.sampled_from(["missing_reward", "missing_prompt"]), st.integers(1, 5))
NOTES = st.lists(st.sampled_from(["one.", "two."]), max_size=2, unique=True).map(tuple)


def rows_of(pilot: Pilot) -> list[tuple[Any, ...]]:
    """Every row, in an order that does not depend on that of the pilot."""

    def column(values: Any) -> list[Any]:
        found = [None] * pilot.successes.size if values is None else list(values)
        return [
            None if v is None or v != v else (round(float(v), 9) if isinstance(v, float) else str(v)) for v in found
        ]

    strata = ["(none)"] * pilot.successes.size if pilot.stratum is None else [str(s or "(none)") for s in pilot.stratum]
    columns = [
        column(pilot.prompt_id), strata, column(pilot.temperature), pilot.rollouts.tolist(), pilot.successes.tolist(),
        pilot.prompts_per_row.tolist(), column(pilot.response_tokens), column(pilot.pass_tokens), column(pilot.fail_tokens),
    ]  # fmt: skip
    return sorted(zip(*columns, strict=True), key=str)


def assert_same(a: Pilot, b: Pilot) -> None:
    assert rows_of(a) == rows_of(b)
    assert (dict(a.dropped), set(a.notes)) == (dict(b.dropped), set(b.notes))


@pytest.mark.parametrize("histogram", [False, True])
def test_order_and_grouping_do_not_matter(histogram: bool) -> None:
    @settings(max_examples=40)
    @given(st.lists(shards(histogram=histogram), min_size=2, max_size=4), st.randoms(use_true_random=False))
    def check(parts: list[Pilot], random: Any) -> None:
        whole = Pilot.merge(*parts)
        assert whole.prompts <= sum(p.prompts for p in parts)
        assert whole.total_rollouts == sum(p.total_rollouts for p in parts)
        assert whole.histogram().successes @ whole.histogram().prompts == sum(
            p.successes @ p.prompts_per_row for p in parts
        )
        assert_same(whole, Pilot.merge(*random.sample(parts, len(parts))))
        assert_same(whole, reduce(Pilot.merge, parts))
        assert_same(whole, Pilot.merge(parts[0], Pilot.merge(*parts[1:])))
        assert_same(whole, Pilot.merge(whole))  # one pilot is its own merge
        if histogram:
            assert whole.prompts == sum(p.prompts for p in parts)
            assert whole.successes.size <= sum(p.successes.size for p in parts)

    check()


@settings(max_examples=40)
@given(shards())
def test_names_left_behind_before_or_after(pilot: Pilot) -> None:
    unnamed = replace(pilot, prompt_id=None)
    assert_same(
        Pilot.merge(unnamed, unnamed).as_histogram(), Pilot.merge(unnamed.as_histogram(), unnamed.as_histogram())
    )


def test_prompts_of_one_name_add_up_and_lengths_are_averaged_over_rollouts() -> None:
    first = Pilot.from_counts(
        [1, 0], [4, 2], prompt_id=["a", "b"], response_tokens=[100, 10], pass_tokens=[40, np.nan], fail_tokens=[120, 10]
    )
    second = Pilot.from_counts(
        [3, 2], [4, 4], prompt_id=["a", "c"], response_tokens=[50, 7], pass_tokens=[20, 7], fail_tokens=[140, 7]
    )
    pilot = Pilot.merge(first, second)
    assert (pilot.prompt_id.tolist(), pilot.successes.tolist()) == (["a", "b", "c"], [4, 0, 2])  # type: ignore[union-attr]
    np.testing.assert_allclose(pilot.response_tokens, [75, 10, 7])  # type: ignore[arg-type]
    np.testing.assert_allclose(pilot.pass_tokens, [(40 + 3 * 20) / 4, np.nan, 7])  # type: ignore[arg-type]
    np.testing.assert_allclose(pilot.fail_tokens, [(3 * 120 + 140) / 4, 10, 7])  # type: ignore[arg-type]
    bare = Pilot.from_counts([4], [4], prompt_id=["c"])
    unknown = Pilot.merge(pilot, bare)
    assert np.isnan(unknown.response_tokens[2])  # type: ignore[index]
    assert unknown.response_tokens[0] == 75  # type: ignore[index]


def test_the_same_name_elsewhere_is_another_prompt() -> None:
    parts = [
        Pilot.from_counts([1], 4, prompt_id=["a"], stratum=["x"], temperature=1.0),
        Pilot.from_counts([2], 4, prompt_id=["a"], stratum=["y"], temperature=1.0),
        Pilot.from_counts([3], 4, prompt_id=["a"], stratum=["x"], temperature=0.6),
        Pilot.from_counts([4], 4, prompt_id=["a"]),
    ]
    pilot = Pilot.merge(*parts, parts[0])
    assert pilot.successes.tolist() == [2, 2, 3, 4]
    assert pilot.stratum.tolist() == ["x", "y", "x", "(none)"]  # type: ignore[union-attr]


def test_rows_that_only_have_a_number_stay_apart() -> None:
    numbered = Pilot.from_counts([1, 2], 4, prompt_id=["row 1", "row 2"])
    pilot = Pilot.merge(numbered, numbered, Pilot.from_counts([3], 4))
    assert (pilot.prompts, pilot.prompt_id) == (5, None)
    named = Pilot.merge(numbered, Pilot.from_counts([3, 1], 4, prompt_id=["a", "row 1"]))
    assert named.prompt_id.tolist() == [None, None, "a", "row 1"]  # type: ignore[union-attr]


def test_what_was_read_adds_up() -> None:
    first, second = (
        replace(
            Pilot.from_counts([1], 4, prompt_id=[name]),
            provenance=Provenance(format="table", files=1, rows=9, policies=("m",)),
        )
        for name in "ab"
    )
    pilot = Pilot.merge(first, second, Pilot.from_counts([1], 4, dropped={"missing_reward": 2}))
    assert (pilot.provenance.files, pilot.provenance.rows, pilot.provenance.policies) == (2, 18, ("m",))
    assert pilot.dropped == {"missing_reward": 2}


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], r"Pilot.merge takes one or more pilots, as in Pilot.merge\(a, b, c\); got nothing."),
        ([[Pilot.from_counts([1], 2)]], "got list"),
        (
            [Pilot.from_counts([1], 2), Pilot.from_histogram([2], [1], [3])],
            "Some pilots are histograms and some have a row a prompt",
        ),
        (
            [replace(Pilot.from_counts([1], 2), provenance=Provenance(policies=(m,))) for m in "ab"],
            r"different models \(a; b\)",
        ),
        (
            [Pilot.from_counts([1], 2), replace(Pilot.from_counts([1], 2), provenance=Provenance(weak_prior="small"))],
            r"different models \(small; unnamed\)",
        ),
        ([Pilot.from_counts([1], 9_000_000, prompt_id=["a"])] * 2, "rollouts must be at most 10,000,000 a prompt"),
    ],
)
def test_what_cannot_be_merged(parts: list[Any], message: str) -> None:
    with pytest.raises(gp.PilotError, match=message):
        Pilot.merge(*parts)
