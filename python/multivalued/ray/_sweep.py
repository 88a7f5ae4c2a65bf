"""Many trainings: recipes, seeds and folds, each a Ray task with a run folder of its own."""

from __future__ import annotations

import csv
import io
import json
import os
import pathlib
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from .. import _native
from .._options import Path
from .._train import Recipe, open_run, resume, train
from ._engine import device_of, placed, ray_with

SCORES = ("ged_limit", "ged_exact", "hm_iou", "mode_ece", "empty_ece", "n_x_1pct")
"""What the table has of each run's report, where the report has it."""


def sweep(
    recipes: Mapping[str, str | Recipe] | Sequence[str],
    data: Path | None = None,
    *,
    out: Path,
    seeds: Sequence[int] = (1,),
    folds: int | None = None,
    sets: Sequence[str] = (),
    threads: int = 1,
    gpus: float = 0.0,
    save_every: float = 30.0,
    progress: bool = True,
) -> list[dict[str, Any]]:
    """Trains every recipe with every seed (and, with `folds`, without every fold), and gives a table of their scores.

    `recipes` are names or files, or a dictionary of names with recipes of any kind; `sets` change keys of all of them
    (`"train.steps=2000"`). Every run is a folder `out/NAME-seed-N[-fold-K]`, as `train` makes it. Called again, runs that
    are finished are left alone and others go on from their last checkpoint. The table is also `out/sweep.csv` and
    `out/sweep.json`.
    """
    named = dict(recipes) if isinstance(recipes, Mapping) else {pathlib.Path(name).stem: name for name in recipes}
    place = pathlib.Path(out).absolute()
    place.mkdir(parents=True, exist_ok=True)
    runs = _runs(named, seeds, folds, list(sets))
    wanted = {name: settings for name, settings in runs.items() if not _is_finished(place / name)}
    if progress:
        print(f"{len(runs)} runs, {len(runs) - len(wanted)} of them finished before", file=sys.stderr, flush=True)
    if wanted:
        ray = ray_with()
        task = ray.remote(_train).options(max_retries=-1, **placed(threads, gpus))
        source = None if data is None else str(pathlib.Path(data).absolute())
        how = {"threads": threads, "device": device_of(gpus), "save_every": save_every}
        left = {task.remote(str(place / name), settings, source, how): name for name, settings in wanted.items()}
        failed = {}
        while left:
            (done,), _ = ray.wait(list(left), num_returns=1)
            name = left.pop(done)
            try:
                ray.get(done)
            except ray.exceptions.RayTaskError as error:
                failed[name] = str(error.cause)
            if progress:
                how_it_went = failed.get(name, "done")
                print(f"{name}: {how_it_went}; {len(left)} to go", file=sys.stderr, flush=True)
        if failed:
            name, reason = next(iter(failed.items()))
            raise RuntimeError(f"{len(failed)} of {len(runs)} runs failed; {name}: {reason}")
    table = [_row(place / name, name, settings) for name, settings in runs.items()]
    _write(place / "sweep.json", json.dumps(table, indent=1))
    _write(place / "sweep.csv", _csv(table))
    return table


def _runs(
    named: Mapping[str, str | Recipe], seeds: Sequence[int], folds: int | None, sets: list[str]
) -> dict[str, dict[str, Any]]:
    runs: dict[str, dict[str, Any]] = {}
    for name, recipe in named.items():
        for seed in seeds:
            for fold in range(1, folds + 1) if folds else [None]:
                changes = [*sets, f"train.seed={seed}"]
                changes += [] if fold is None else [f"data.folds={folds}", f"data.fold={fold}"]
                text = recipe if isinstance(recipe, str) else None
                stated = None if isinstance(recipe, str) else json.dumps(recipe)
                whole = json.loads(_native.recipe(text, stated, changes))
                own = f"{name}-seed-{seed}" + ("" if fold is None else f"-fold-{fold}")
                runs[own] = {"recipe": whole, "name": name, "seed": seed, "fold": fold}
    return runs


def _is_finished(folder: pathlib.Path) -> bool:
    return (folder / "report.json").is_file() and (folder / "log.jsonl").is_file() and open_run(folder).finished


def _train(folder: str, settings: dict[str, Any], data: str | None, how: dict[str, Any]) -> None:
    """One run, from its start or from its last checkpoint."""
    place = pathlib.Path(folder)
    # A worker of a driver that has just been killed may hold the run for some seconds.
    for tries in range(20):
        try:
            if (place / "recipe.toml").is_file():
                resume(place, progress=False, ranks="none", **how)
            else:
                train(data=data, recipe=settings["recipe"], out=place, progress=False, ranks="none", **how)
            return
        except ValueError as error:
            if "in use by another process" not in str(error) or tries == 19:
                raise
            time.sleep(1)


def _row(folder: pathlib.Path, name: str, settings: dict[str, Any]) -> dict[str, Any]:
    run = open_run(folder)
    summary = run.report.summary
    row: dict[str, Any] = {"run": name, "recipe": settings["name"], "seed": settings["seed"], "fold": settings["fold"]}
    row |= {"cases": summary["cases"]} | {score: summary[score] for score in SCORES if score in summary}
    last = run.log[-1]
    return row | {"steps": last.get("step"), "seconds": last.get("seconds")}


def _csv(table: Sequence[Mapping[str, Any]]) -> str:
    names = list(dict.fromkeys(name for row in table for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return text.getvalue()


def _write(path: pathlib.Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text)
    os.replace(fresh, path)


def _cell(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def shown(table: Sequence[Mapping[str, Any]]) -> str:
    """The table as lines of text."""
    names = [name for name in ("run", "cases", *SCORES, "steps") if any(name in row for row in table)]
    rows = [names, *([_cell(row.get(name, "")) for name in names] for row in table)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(names))]
    return "\n".join("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows)
