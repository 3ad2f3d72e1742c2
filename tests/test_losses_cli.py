"""``grpo-plan losses``: pages, JSON, what is read of a source, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import grpo_plan as gp
from tests.test_cli import Run, run  # noqa: F401
from tests.test_losses import some_rollouts


def write(path: str, rows: list[dict[str, Any]]) -> None:
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def pilot_rows(prompts: int = 60) -> list[dict[str, Any]]:
    found = some_rollouts(1, prompts=prompts)
    return [
        {"prompt_id": f"q{g}", "reward": int(p), "response_tokens": int(t)}
        for g, p, t in zip(found.group, found.passed, found.tokens, strict=True)
    ]


def test_two_lengths(run: Run) -> None:  # noqa: F811
    answer = run("losses", "--lengths", "2,8", "--advantages", "1,-1")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0] == "Answer   net push grpo 0, dapo -0.6"
    assert "  1              2          1    0.25   0.1" in lines
    assert "  2              8         -1  0.0625   0.1" in lines
    assert max(map(len, lines)) <= 80
    found = json.loads(run("losses", "--lengths", "2,8", "--advantages", "1,-1", "--json").out)
    assert (found["schema"], found["command"], found["lengths"], found["micro_batch"]) == (1, "losses", [2, 8], None)
    grpo, dapo = found["aggregations"]
    assert grpo["token_weights"] == [0.25, 0.0625]
    assert dapo["token_weights"] == [0.1, 0.1]
    assert grpo["net_push"] == 0.0
    assert dapo["net_push"] == pytest.approx(-0.6)


def tables(page: str, title: str) -> list[str]:
    """Lines of the section with that title."""
    lines = page.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(title))
    end = next((i for i in range(start, len(lines)) if not lines[i]), len(lines))
    return lines[start + 1 : end]


def test_long_names_do_not_fold_the_tables(run: Run) -> None:  # noqa: F811
    names = ("--aggregation", "token-mean,seq-mean-token-sum-norm,seq-mean-token-mean", "--max-tokens", 1000)
    write("p.jsonl", pilot_rows())
    page = run("losses", "p.jsonl", *names).out
    for title in ("Share of the weight", "Other groups", "What moves", "Net push"):
        assert sum(line.startswith("  A ") for line in tables(page, title)) == 1
    assert "  B        verl:seq-mean-token-sum-norm" in page.splitlines()
    page = run("losses", "--lengths", "2,8", *names).out
    assert len(tables(page, "Weight of each token")) == 3
    assert max(map(len, page.splitlines())) <= 80


def test_a_wrong_name_is_told_the_nearest(run: Run) -> None:  # noqa: F811
    for wrong, near in (("seq-mean-token", "verl:seq-mean-token-"), ("drgrpo", "trl:dr_grpo"), ("dapoo", "trl:dapo")):
        answer = run("losses", "--lengths", "2,8", "--aggregation", wrong)
        assert answer.code == 2
        assert near in answer.err
        assert "docs/losses.md" in answer.err
        assert len(answer.err) < 250


def test_responses_cut_at_one_length_have_no_long_ones(run: Run) -> None:  # noqa: F811
    def page(longest: int) -> tuple[str, Any]:
        rows = [{**row, "response_tokens": min(row["response_tokens"], longest)} for row in pilot_rows()]
        write("p.jsonl", rows)
        return run("losses", "p.jsonl").out, json.loads(run("losses", "p.jsonl", "--json").out)

    text, found = page(60)
    assert text.startswith("Answer   weight on wrong responses")
    assert "Half or more of the responses have the largest length, 60" in text
    assert "longest tenth" not in text
    assert found["median_tokens"] == found["longest_tokens"] == 60
    assert found["aggregations"][0]["long"]["value"] == 0.0
    text, found = page(300)
    assert "A tenth or more of the responses have the largest length, 300" in text
    assert tables(text, "Share of the weight")[0].split() == ["long", "wrong", "mixed", "groups"]
    assert found["median_tokens"] < found["decile_tokens"] == found["longest_tokens"]


def test_columns_of_what_is_not_there_are_hidden(run: Run) -> None:  # noqa: F811
    write("p.jsonl", pilot_rows())
    page = run("losses", "p.jsonl").out
    assert "failed scoring" not in page
    assert "< 2 scored" not in page
    assert json.loads(run("losses", "p.jsonl", "--json").out)["aggregations"][0]["failed"]["value"] == 0.0
    rows = pilot_rows()
    rows[0]["reward"] = None
    write("p.jsonl", rows)
    page = run("losses", "p.jsonl").out
    assert "failed scoring" in page
    assert "< 2 scored" not in page


def test_a_split_of_lengths(run: Run) -> None:  # noqa: F811
    answer = run("losses", "--lengths", "2,8", "--micro-batch", 1)
    assert answer.out.startswith("Answer   the split misplaces 30% of the weight of bnpo")
    assert "After the split: 1 rank(s) with 2 micro-batch(es) each" in answer.out
    found = json.loads(run("losses", "--lengths", "2,8", "--micro-batch", 1, "--json").out)
    bnpo = found["aggregations"][1]
    assert bnpo["split"]["misplaced"] == pytest.approx(0.3)
    assert bnpo["split"]["token_weights"] == [0.25, 0.0625]
    assert not bnpo["immune"]
    fine = run("losses", "--lengths", "2,8", "--micro-batch", 1, "--aggregation", "dapo")
    assert fine.out.startswith("Answer   the split leaves the shares of the weight as they should be")


def test_other_aggregations_by_name(run: Run) -> None:  # noqa: F811
    answer = run(
        "losses", "--lengths", "2,8", "--aggregation", "verl:token-mean,dr_grpo", "--aggregation", "skyrl:prompt_mean",
        "--max-tokens", 10,
    )  # fmt: skip
    assert answer.code == 0
    assert "verl:token-mean  dr_grpo  skyrl:prompt_mean" in answer.out
    assert "C the max_completion_length" in " ".join(answer.out.split())


def test_odd_lengths(run: Run) -> None:  # noqa: F811
    assert run("losses", "--lengths", "0,0").out.startswith("Answer   no response has a loss token")
    one = run("losses", "--lengths", "5")
    assert one.out.startswith("Answer   share of the weight on the longest response: grpo 100%, dapo 100%")
    many = run("losses", "--lengths", ",".join(["3"] * 30))
    assert "10 more responses are in --json." in many.out
    some = run("losses", "--lengths", "0,4")
    assert "1 response has no loss token; such responses still count" in " ".join(some.out.split())


def test_a_pilot(run: Run) -> None:  # noqa: F811
    write("p.jsonl", pilot_rows())
    answer = run("losses", "p.jsonl")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0].startswith("Answer   weight on responses longer than the median: grpo 50% [")
    assert max(map(len, lines)) <= 80
    assert "What moves the policy" in answer.out
    found = json.loads(run("losses", "p.jsonl", "--json").out)
    bias = gp.length_bias(gp.read_rollouts("p.jsonl"))
    for row, shown in zip(bias.rows, found["aggregations"], strict=True):
        for name in ("long", "longest", "wrong", "mixed", "gradient_wrong", "net", "pull"):
            limits = getattr(row, name)
            assert shown[name] == {"value": limits.value, "low": limits.low, "high": limits.high}
    assert found["groups"] == bias.kinds
    assert found["split"] is None


def test_a_split_of_a_pilot(run: Run) -> None:  # noqa: F811
    write("p.jsonl", pilot_rows())
    options = ("--micro-batch", 4, "--ranks", 2, "--prompts-per-step", 16)
    answer = run("losses", "p.jsonl", *options)
    assert answer.out.startswith("Answer   the split misplaces ")
    assert "After a split: 16 groups a step, micro-batches of 4, 2 rank(s)" in answer.out
    assert max(map(len, answer.out.splitlines())) <= 80
    found = json.loads(run("losses", "p.jsonl", *options, "--json").out)["split"]
    assert [row["aggregation"] for row in found["aggregations"]] == ["trl:grpo", "trl:bnpo", "trl:dapo"]
    assert found["aggregations"][1]["misplaced"] > 0.05
    assert found["aggregations"][2]["misplaced"] == 0.0


def test_counts_with_mean_lengths(run: Run) -> None:  # noqa: F811
    rows = [{"prompt_id": f"q{i}", "n": 8, "k": i % 9, "response_tokens": 100 + i} for i in range(20)]
    write("counts.jsonl", rows)
    answer = run("losses", "counts.jsonl")
    assert answer.code == 1
    assert "needs its length. There is one length a group" in answer.err
    assert answer.err.count("\n") <= 2


def test_lists_and_unknown_lengths(run: Run) -> None:  # noqa: F811
    write("lists.jsonl", [
        {"prompt_id": "a", "rewards": [1, 0, 0], "response_tokens": [2, 8, 5]},
        {"prompt_id": "b", "rewards": [0, 0, None], "response_tokens": [3, None, 4]},
    ])  # fmt: skip
    found = gp.read_rollouts("lists.jsonl")
    assert found.tokens.tolist()[:4] == [2.0, 8.0, 5.0, 3.0]
    assert found.scored.tolist() == [True] * 5 + [False]
    shown = json.loads(run("losses", "lists.jsonl", "--json").out)
    assert (shown["rollouts"], shown["without_length"]) == (5, 1)
    assert shown["aggregations"][1]["failed"]["value"] == pytest.approx(4 / 22)


def test_a_length_of_the_prompt_is_no_length_of_rollouts() -> None:
    rows = pl.DataFrame(
        {"prompt_id": ["a", "a", "b", "b", "c", "c"], "reward": [1, 0] * 3, "response_tokens": [5, 5, 7, 7, 9, 9]}
    )
    found = gp.read_rollouts(rows)
    assert found.lengths is gp.RolloutLengths.REPEATED
    with pytest.raises(gp.PilotError, match="one length a group"):
        gp.length_bias(found)
    cut = rows.with_columns(pl.lit(512).alias("response_tokens"))
    assert gp.read_rollouts(cut).lengths is gp.RolloutLengths.EACH  # all cut at one limit
    assert gp.read_rollouts(rows.drop("response_tokens")).lengths is gp.RolloutLengths.ABSENT


def test_groups_of_a_dump_are_kept_apart(run: Run) -> None:  # noqa: F811
    def row(step: int, session: int, score: float, tokens: int) -> dict[str, Any]:
        return {"input": "a", "output": "x " * tokens, "gts": "", "score": score, "step": step,
                "uid": f"a{step}_{session}_0", "response_length": tokens}  # fmt: skip

    write("1.jsonl", [row(1, 0, 1.0, 2), row(1, 1, 0.0, 8)])
    write("2.jsonl", [row(2, 0, 1.0, 3), row(2, 1, 1.0, 4)])
    groups = gp.read_groups(["1.jsonl", "2.jsonl"])
    found = gp.read_rollouts(["1.jsonl", "2.jsonl"])
    assert found.groups == groups.groups == 2
    assert found.kinds["mixed"] == 1  # pooled by prompt there would be one mixed group of four
    assert found.cluster.tolist() == [0, 0]  # of one prompt: no two independent ones
    independent = gp.read_independence(["1.jsonl", "2.jsonl"])  # another observer sees the same rows as before
    assert independent.pilot.total_rollouts == 4


def test_a_real_dump_of_trl() -> None:
    folder = Path(__file__).parent / "data" / "trl" / "binary"
    found = gp.read_rollouts(folder)
    groups = gp.read_groups(folder)
    assert found.groups == groups.groups
    assert int((~found.mixed).sum()) == groups.dead_groups


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "losses takes a pilot with response lengths, or --lengths 2,8"),
        (("p.jsonl", "--lengths", "2"), "and not both"),
        (("p.jsonl", "--advantages", "1"), "--advantages goes with --lengths"),
        (("--lengths", "x"), "--lengths must be numbers separated by commas"),
        (("--lengths", ""), "--lengths must be numbers separated by commas"),
        (("--lengths", "2,nan"), "got nan at index 1"),
        (("--lengths", "-2"), "got -2 at index 0"),
        (("--lengths", "1e13"), "whole numbers of tokens from 0 to 1e12"),
        (("--lengths", "2,8", "--advantages", "1"), "--advantages must be one number a response, 2 in all"),
        (("--lengths", "2,8", "--aggregation", "nope"), "aggregation must be a name of docs/losses.md, e.g. "),
        (("--lengths", "2,8", "--aggregation", "dr_grpo"), "max_tokens= (--max-tokens)"),
        (("--lengths", "2,8,3", "--ranks", 2), "cannot be shared out equally to 2 ranks"),
        (("p.jsonl", "--estimator", "nope"), "estimator must be one of"),
        (("p.jsonl", "--ranks", 10_000), "fewer than 10,000 ranks"),
        (("p.jsonl", "--truncated"), "losses cannot take --truncated"),
        (("p.jsonl", "--level", 2), "level must lie strictly between 0 and 1"),
        (("none.jsonl",), "none.jsonl"),
    ],
)
def test_refusals(run: Run, arguments: tuple[object, ...], says: str) -> None:  # noqa: F811
    write("p.jsonl", pilot_rows(6))
    answer = run("losses", *arguments)
    assert answer.code in (1, 2)
    assert answer.out == ""
    last = answer.err.splitlines()[-1]
    assert last.startswith("grpo-plan: ")
    assert says in last
    assert "Traceback" not in answer.err


def test_help_has_an_example(run: Run) -> None:  # noqa: F811
    assert "grpo-plan losses --lengths 2,8 --advantages 1,-1" in " ".join(run("losses", "--help").out.split())
