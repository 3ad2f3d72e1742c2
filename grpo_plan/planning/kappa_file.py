"""The JSON file of a kappa measurement: its results for readers, and its data, from which they are computed again."""

from __future__ import annotations

import json
import math
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from grpo_plan._files import write_whole
from grpo_plan.errors import GrpoPlanError, PilotFormatError
from grpo_plan.planning.gradients import MeanGradientSquare
from grpo_plan.planning.kappa_lines import PassMoments, refuse_scale

SCHEMA, KIND = 1, "kappa"
LARGEST_FILE = 1 << 30
AGREEMENT = 1e-6
MOST_RESAMPLES = 1_000_000


def body_of(m: Any) -> dict[str, Any]:
    """The object that is written."""
    signal, moments = m.mean_gradient_square, m.pilot_moments
    return {
        "schema": SCHEMA,
        "kind": KIND,
        "prompts": m.prompts,
        "live_prompts": m.live_prompts,
        "group_sizes": list(m.group_sizes),
        "mean_squared_norms": list(m.mean_squared_norms),
        "intercept": _measured(m.intercept),
        "slope": _measured(m.slope),
        "ratio": _measured(m.ratio),
        "best_group_size": _measured(m.group_size()),
        "kappa": None if m.kappa is None else _measured(m.kappa),
        "kappa_source": m.kappa_source,
        "misfit": m.misfit,
        "misfit_p": m.misfit_p,
        "mean_gradient_square": None if signal is None else _fields(signal, MeanGradientSquare.__slots__),
        "level": m.level,
        "resamples": m.resamples,
        "seed": m.seed,
        "statuses": {s.name: s.sentence for s in m.statuses},
        "notes": list(m.notes),
        "data": {
            "squared_norms": m.squared_norms.tolist(),
            "passes": None if m.passes is None else m.passes.tolist(),
            "scored": None if m.scored is None else m.scored.tolist(),
            "pilot_moments": None if moments is None else _fields(moments, PassMoments.__slots__),
        },
    }


def write(path: str | PathLike[str], body: dict[str, Any]) -> None:
    """Write an object; finite numbers only."""
    write_whole(Path(path), json.dumps(body, indent=1, allow_nan=False) + "\n")


def read(path: str | PathLike[str]) -> dict[str, Any]:
    """Fields of a `KappaMeasurement`, checked."""
    file = Path(path)
    if file.exists() and (not file.is_file() or file.stat().st_size > LARGEST_FILE):
        _bad(path, "it is no regular file, or too large")
    try:
        body = json.loads(
            Path(path).read_text(encoding="utf-8"), parse_constant=lambda word: _bad(path, f"it holds {word}")
        )
    except OSError as error:
        raise PilotFormatError(
            f"{path}: cannot be read ({error.strerror}). Write it with KappaMeasurement.save."
        ) from None
    except ValueError as error:
        if isinstance(error, GrpoPlanError):
            raise
        raise PilotFormatError(f"{path}: is not JSON. Write it with KappaMeasurement.save.") from None
    if not isinstance(body, dict) or body.get("kind") != KIND:
        _bad(path, 'it has no "kind": "kappa"')
    if body.get("schema") != SCHEMA:
        _bad(path, f"its schema is {body.get('schema')!r} and this version reads {SCHEMA}")
    try:
        return _fields_of(path, body)
    except PilotFormatError:
        raise
    except GrpoPlanError as error:
        raise PilotFormatError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        _bad(path, "fields are missing or of another type")


def check(path: str | PathLike[str], measurement: Any) -> None:
    """The results in the file are those of its data: nobody edited one without the other."""
    stored = json.loads(Path(path).read_text(encoding="utf-8"))
    for name, own in (("ratio", measurement.ratio), ("kappa", measurement.kappa)):
        theirs = stored.get(name)
        theirs = theirs.get("value") if isinstance(theirs, dict) else None
        mine = None if own is None else own.value
        same = theirs is None and mine is None
        if isinstance(theirs, int | float) and mine is not None:
            same = math.isclose(theirs, mine, rel_tol=AGREEMENT, abs_tol=AGREEMENT)
        if not same:
            _bad(path, f"{name} is {theirs}, but its data give {mine}: it was edited")


def _fields_of(path: str | PathLike[str], body: dict[str, Any]) -> dict[str, Any]:
    data, signal = body["data"], body["mean_gradient_square"]
    sizes = tuple(body["group_sizes"])
    norms = np.array(data["squared_norms"], dtype=np.float64)
    whole = all(isinstance(x, int) and not isinstance(x, bool) for x in (*sizes, body["resamples"], body["seed"]))
    if not whole or len(sizes) < 2 or min(sizes) < 2 or list(sizes) != sorted(set(sizes)):
        _bad(path, "group_sizes must be at least two rising whole numbers")
    if norms.ndim != 2 or norms.shape[0] < 2 or norms.shape[1] != len(sizes) or not np.isfinite(norms).all():
        _bad(path, "squared_norms must be finite, one row a prompt and one column a group size")
    if not norms.any():
        _bad(path, "all its groups are dead")
    refuse_scale(norms)
    if not 0.0 < body["level"] < 1.0 or not 1 <= body["resamples"] <= MOST_RESAMPLES or body["seed"] < 0:
        _bad(path, "level, resamples or seed is out of range")
    passes, scored = (None if data[x] is None else np.array(data[x]) for x in ("passes", "scored"))
    if (passes is None) != (scored is None):
        _bad(path, "it has one of passes and scored without the other")
    if passes is not None and scored is not None:
        kinds = passes.dtype.kind == scored.dtype.kind == "i" and passes.shape == scored.shape == norms.shape[:1]
        if not kinds or not np.all((passes >= 0) & (passes <= scored)) or int((scored >= 4).sum()) < 2:
            _bad(path, "passes and scored must be whole numbers, one a prompt, with passes at most scored")
    moments = data["pilot_moments"]
    return {
        "group_sizes": sizes,
        "squared_norms": norms,
        "passes": passes,
        "scored": scored,
        "pilot_moments": None if moments is None else _moments(path, moments),
        "mean_gradient_square": None if signal is None else MeanGradientSquare(**signal),
        "level": float(body["level"]),
        "resamples": body["resamples"],
        "seed": body["seed"],
        "notes": tuple(str(note) for note in body["notes"]),
    }


def _moments(path: str | PathLike[str], stored: dict[str, Any]) -> PassMoments:
    means, covariance = np.array(stored["means"], dtype=float), np.array(stored["covariance"], dtype=float)
    if means.shape != (2,) or covariance.shape != (2, 2) or not np.isfinite([*means, *covariance.ravel()]).all():
        _bad(path, "pilot_moments must be two means and their covariance")
    (a, b), (c, d) = covariance.tolist()
    return PassMoments(
        means=(means[0].item(), means[1].item()), covariance=((a, b), (c, d)), prompts=int(stored["prompts"])
    )


def _measured(value: Any) -> dict[str, Any]:
    return _fields(value, ("value", "low", "high", "standard_error"))


def _fields(record: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


def _bad(path: str | PathLike[str], why: str) -> NoReturn:
    raise PilotFormatError(f"{path}: is no kappa measurement: {why}. Write it with KappaMeasurement.save.")
