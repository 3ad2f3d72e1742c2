"""What docs/simulation.md says under its tables. Every number is taken from the tables; tests hold the claims to them."""

from __future__ import annotations

from collections.abc import Iterable

from figures.learning import Row
from figures.learning_tables import (
    MEAN,
    SIGN,
    Duel,
    agreement,
    duels,
    in_range,
    one,
    percent,
    points,
    selected,
    sizes_of,
)


def small(rows: list[Row]) -> tuple[int, int]:
    """Decided conditions at small rates that went as predicted, and all decided."""
    return agreement(duels(rows, study="map", rate_is="common 0.125"))


def at_best(rows: list[Row]) -> tuple[int, int]:
    """The same at the best rate of each."""
    return agreement(duels(rows, study="map", rate_is="best"))


def on_map(rows: list[Row]) -> list[str]:
    """Does the threshold hold, and where not."""
    right, all_small = small(rows)
    best, all_best = at_best(rows)
    return [
        f"**It does, as a rule: at one small rate in {right} of {all_small} decided conditions, at the best rates in {best} of {all_best}.** "
        "Where not, this is why:",
        "",
        "* **Which noise sets the learning rate.** The threshold counts the spread between groups and the score noise alike. Where score noise "
        "alone does the harm, what counts is its size over the squared signal: 1/(4G E[pq]^2) for sign, 1/((G-1) E[pq]) for mean-centred. Then "
        "sign is ahead only if 4 E[pq] is at least (G-1)/G, **at any kappa above 0**. So between 0 and the threshold sign lost or drew where "
        "noise costs, and won small steps where it spreads.",
        "* **A step is not a run.** With much shared direction and little score noise both learn nearly all at any rate, and leads are a few tenths of a "
        "point. As hard prompts are learned E[pq] rises, and the threshold with it; as middling prompts are learned it falls: sign wins their small "
        "steps and loses runs that end near 1.",
        "* **Adam** takes out the factor by which sign's expected step is longer (2 against `rloo`, 2G/(G-1) against `dr_grpo`), SGD does not: "
        "there one learning rate for both is two learning rates.",
        "* **Dead batches.** With 4 prompts of 4 rollouts many steps of a mean-centred estimator have no mixed group and do nothing; sign always "
        "steps. That is no gain of its own: it is in the noise-to-signal ratio already, and the sweep makes up for the length.",
        "* **Noise alone** (marked): where noise spreads and kappa is large, the best rate is so high that logits are flipped like coins, and "
        "shuffled rewards gain at least half as much. No estimator wins there.",
        "",
    ]  # fmt: skip


def on_groups(rows: list[Row]) -> list[str]:
    """Other group sizes."""
    found = [*duels(rows, study="groups", rate_is="best"), *duels(rows, study="groups", rate_is="common 0.125")]
    right, decided = agreement(found)
    wins = sorted({(d.sign["rates"], int(d.sign["group_size"])) for d in _won(found, SIGN)})
    above = sum(duel.predicted == MEAN for duel in _won(found, SIGN))
    middling = sorted({size for rates, size in wins if rates == "middling"})
    return [
        f"G = 2, 8 and 16, best and small rates together: {right} of {decided} decided conditions as predicted. Sign won at middling prompts at "
        f"G = {', '.join(map(str, middling))}. Above the threshold it won in {above} conditions. The threshold is highest at G = 2, where mean-centred advantages "
        "have least to compare with.",
        "",
    ]


def _won(found: Iterable[Duel], verdict: str) -> list[Duel]:
    return [duel for duel in found if duel.verdict == verdict]


def on_estimators(rows: list[Row]) -> list[str]:
    """grpo, maxrl, f_grpo, ngrpo."""
    found = [row for row in selected(rows, study="estimators") if row["estimator"] != "rloo"]
    words = []
    for name in dict.fromkeys(row["estimator"] for row in found):
        here = [row for row in found if row["estimator"] == name]
        better, worse = sum(float(r["low"]) > 0 for r in here), sum(float(r["high"]) < 0 for r in here)
        words.append(f"`{name}` better in {better} and worse in {worse} of {len(here)}")
    return [
        f"Against `rloo`: {'; '.join(words)}. They weigh prompts by difficulty; none of them uses all-fail groups but `ngrpo`.",
        "",
    ]


def widest(rows: list[Row], where: dict[str, object], *, best: bool = False) -> Duel:
    """The widest sure lead of sign, four prompts a step: at one learning rate for both, or at the best of each."""
    found = [d for d in duels(rows, study="published", **where) if (d.sign["rate_is"] == "best") == best]
    sure = [d for d in found if float(d.sign["low"]) > 0.0]
    return max(sure or found, key=lambda d: float(d.sign["difference"]))


def on_published(rows: list[Row]) -> list[str]:
    """Whether something like the published result appears."""
    four, eight = widest(rows, {"group_size": 4}), widest(rows, {"group_size": 8})
    best, adam = widest(rows, {"group_size": 4}, best=True), widest(rows, {"group_size": 4, "optimizer": "adam-norm"})
    names = {"sgd": "SGD", "adam-norm": "Adam"}
    shared = {"high": "much shared direction", "low": "little shared direction"}
    return [
        "**Something like it appears at one low learning rate for both under SGD, not at the best rate of each, and not under Adam.** The widest sure gap at G = 4 is "
        f"{points(four.sign['difference'])} points ({percent(four.mean['final'])} against {percent(four.sign['final'])} %; "
        f"{names[four.sign['optimizer']]}, kappa {four.sign['kappa']}, {shared[four.sign['coherence']]}), at G = 8 "
        f"{points(eight.sign['difference'])}. It comes from a rate that is too low for `dr_grpo`, whose expected step is 3/8 of that of sign at G = 4 "
        "and 7/16 at G = 8; so this gap narrows at larger G, too. Adam takes that factor out: there the widest sure gap at one rate is "
        f"{points(adam.sign['difference'])} points. At best rates it is {points(best.sign['difference'])} ({names[best.sign['optimizer']]}, kappa "
        f"{best.sign['kappa']}, below the threshold). A sure gap of 45 points appears nowhere. At higher common rates the order turns: sign is ruined first.",
        "",
        "So the published gap needs a rate that suits sign better, kappa below the threshold, or something that this model lacks, such as "
        "what sign unlearns in all-fail groups. It cannot be told from here which.",
        "",
    ]  # fmt: skip


def on_testbed(rows: list[Row]) -> list[str]:
    """Direction and size."""
    three = {e: one(rows, study="testbed", estimator=e, damage="3", rate_is="best") for e in ("rloo", "sign")}
    found = duels(rows, study="testbed", rate_is="best")
    lost = len(_won(found, MEAN))
    ruined = one(rows, study="testbed", estimator="sign", damage="3", rate_is="common 1")
    return [
        f"**Direction: sign loses at {lost} of {len(found)} settings of the noise. Size: right with one number fitted.** Damage 3 was picked from "
        f"five so that mean-centred comes near its measured end ({percent(three['rloo']['final'])} %); sign then ends at "
        f"{percent(three['sign']['final'])} % against 3.8 measured, and at the rate of mean-centred at {percent(ruined['final'])} % "
        "against 0.0 to 0.8. Without damage both learn far more than in the transformer. Sign's NSR is lower here than measured: in the "
        "transformer a fail carries more score noise than a pass, and sign is made of fails.",
        "",
    ]  # fmt: skip


def on_turning(rows: list[Row]) -> list[str]:
    """What the failure does."""
    pairs = [
        (a, b)
        for rates in ("hard", "mixed")
        for kappa in ("0.05", "1")
        for a in [one(rows, study="turning", rates=rates, kappa=kappa, estimator="rloo")]
        for b in [one(rows, study="turning", rates=rates, kappa=kappa, estimator="sign", rate_is="equal step")]
    ]
    falls = sum(float(b["failure"]) < float(b["failure_start"]) for _, b in pairs)
    more = sum(float(b["turned"]) > float(a["turned"]) for a, b in pairs)
    return [
        f"The failure falls under sign in {falls} of {len(pairs)} settings, and falls as much or more under `rloo` in "
        f"{sum(float(a['failure']) <= float(b['failure']) for a, b in pairs)}: at equal expected step both climb the mean pass rate, and sign "
        f"turned more all-fail groups into all-pass ones in {more} of {len(pairs)}. Its push in all-fail groups is real, but it is the same "
        "expected step bought at another noise, not an extra.",
        "",
    ]  # fmt: skip


def on_sizes(rows: list[Row], plans: list[Row]) -> list[str]:
    """The plan against the sweep."""
    kinds = [(p, noise, r) for p in plans for noise in ("costs", "spreads") for r in ("common 0.125", "best")]
    held = [in_range(sizes_of(rows, p["kappa"], noise, r), p) for p, noise, r in kinds]
    small_lost = [
        sizes_of(rows, p["kappa"], n, "common 0.125").lost(int(p["pick"])).value or 0.0
        for p in plans
        for n in ("costs", "spreads")
    ]
    planned = float(plans[0]["progress_64"])
    best_lost = [
        sizes_of(rows, p["kappa"], n, "best").lost(int(p["pick"])).value or 0.0
        for p in plans
        for n in ("costs", "spreads")
    ]
    large = sizes_of(rows, "0.3", "costs", "common 0.125")
    return [
        f"**Is the best G in the flat range?** Yes in {held.count('yes')} of {len(held)} sweeps, a tied one is in {held.count('a tied one')}, "
        f"neither in {held.count('no')}. At one small rate the planner's pick lost at most {percent(max(small_lost), 0)} % of the best gain, "
        f"with a best rate for each size at most {percent(max(best_lost), 0)} % (rates near the cliff make these sweeps rough).",
        "",
        f"**Does a large G do worse than 1/(1 + NSR)?** In real training yes (G = 64 reached .01 to .2 where .22 to .5 was predicted). Here no: at kappa "
        f"0.3 G = 64 reached {large.share(64):.2f} of the best where {planned:.2f} was planned, for Adam shortens a noisy step rather than losing it: "
        f"progress goes more like the root of 1/(1 + NSR), {planned**0.5:.2f}. That holds where score noise costs and where it spreads. What makes large "
        "groups worse in a network is not in this model; keep treating the upper end of the flat range as optimistic.",
        "",
        f"**The dead fraction is no goal.** The first G with D at most .4 is {plans[0]['few_dead']} at every kappa; it is near the best where kappa is 6 or more, and loses "
        "where it is small.",
        "",
    ]  # fmt: skip


def on_choice(rows: list[Row]) -> list[str]:
    """Refill and curriculum."""
    found = selected(rows, study="choice")
    refill = [row for row in found if row["how"] == "refill"]
    band = [row for row in found if row["how"] == "band"]
    return [
        f"**Refill: no gain.** It lost in {sum(float(r['high']) < 0 for r in refill)} of {len(refill)} against more steps of 64 prompts, and did "
        "about as well as, or worse than, as few large steps that train on dead groups too: dead groups carry no signal and no noise, so refill only trades steps for batch, and "
        "throws the surplus away. Its use is a steady batch, not learning per generated rollout. Where generation is cheap beside a step, count costs with the planner.",
        "",
        f"**A band: a gain**, in {sum(float(r['low']) > 0 for r in band)} of {len(band)}, though prompts in and out of the band "
        "share directions alike here and pass rates are tracked from few rollouts. It chooses prompts before rollouts are spent, which refill does not. "
        "The true pass rate is not always better: it leaves learned prompts at once.",
        "",
    ]  # fmt: skip


def on_control(rows: list[Row]) -> list[str]:
    """Shuffled rewards."""
    found = selected(rows, study="control")
    inside = sum(float(row["logit_low"]) <= 0.0 <= float(row["logit_high"]) for row in found)
    sign = selected(rows, study="control", estimator="sign")
    most = max(float(row["gain"]) for row in sign)
    return [
        f"**No estimator learns: {inside} of {len(found)} limits hold 0.** Sign is not centred: the expected step of shuffled rewards is a share 1/B of the true one, B "
        "rollouts in a batch (theory.md, eq. 129), not 0. At 16 rollouts that is 1/16, and the largest value of sign is of that size; with these seeds it cannot be told "
        "from 0. What the mean *pass rate* does is another matter: noise moves logits "
        f"both ways, hard prompts can only go up, and under sign, which steps in every group, it rose by up to {points(most)} points. A rising mean "
        "reward with a noisy estimator on hard prompts is no proof of learning.",
        "",
    ]  # fmt: skip


def end() -> list[str]:
    """What cannot be said."""
    return [
        "## 7. What this cannot say",
        "",
        "* Whether your model is like this one. Rewards do not show kappa, the shared direction, or what noise harms. A probe shows kappa.",
        "* How much score noise harms. Costs and spreads are two ends; the sizes of gains here depend on them, orders less.",
        "* Anything beyond one logit a prompt: new ways to a right answer, what sign unlearns in all-fail groups, lengths, reward hacking, "
        "staleness, clipping, and a link between how hard a prompt is and what it shares.",
        "* Score noise that differs between passes and fails, which the small transformer had.",
        "* The pilot's own error: the pass rates here are known. `sign_threshold` gives limits for it.",
        "* Other sweeps: 60 steps, 1,000 prompts, and the settings above. `grpo-plan simulate` runs others from your pilot.",
        "",
    ]
