"""Predictions and evaluations on Ray Data."""

from __future__ import annotations

import hashlib
import pathlib
import sys
import time
from collections.abc import Iterator
from typing import Any

from .. import _native
from .._data import Dataset, read_dataset
from .._model import load
from .._options import Path
from .._report import Report
from ._blocks import Block, Folder, blocks_of
from ._engine import device_of, placed, ray_with
from ._images import image_of
from ._rows import prediction_of, table_of

_FOR_EVER = {"max_restarts": -1, "max_task_retries": -1}
"""A worker that is lost is started again, and what it was doing is done again."""


class _OfImages:
    """Predicts a batch of a Ray data set."""

    def __init__(self, model: Path, loading: dict[str, Any], column: str, options: dict[str, Any]) -> None:
        self._model = load(model, **loading)
        self._column, self._options = column, options

    def __call__(self, batch: dict[str, Any]) -> Any:
        if self._column not in batch:
            raise ValueError(f"there is no column {self._column!r}; there are {', '.join(batch)}. Say column=")
        values = batch.pop(self._column)
        unknown = [None] * len(values)
        # Predictions have columns of these names, too.
        sizes = zip(batch.pop("height", unknown), batch.pop("width", unknown))
        images = [image_of(value, size) for value, size in zip(values, sizes)]
        said = self._model.predict(images, warn=False, **self._options)
        return table_of({name: list(values) for name, values in batch.items()}, said)


class _OfBlocks:
    """Predicts blocks of files, and writes each as a file."""

    def __init__(self, model: Path, loading: dict[str, Any], out: Path, options: dict[str, Any]) -> None:
        self._model = load(model, **loading)
        self._folder, self._options = Folder(out), options

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        blocks = [Block.of_text(str(text)) for text in batch["block"]]
        for block in blocks:
            ids, images = block.read()
            self._folder.put(block, table_of({"id": ids}, self._model.predict(images, warn=False, **self._options)))
        return {"images": [block.images for block in blocks]}


class _OfCases:
    """Predicts cases of a data set, by their numbers."""

    def __init__(self, model: Path, loading: dict[str, Any], data: Path, split: str | None, how: Any) -> None:
        self._model = load(model, **loading)
        _, self._cases = _part(read_dataset(data, **how), split)

    def __call__(self, batch: dict[str, Any]) -> Any:
        numbers = [int(number) for number in batch["number"]]
        said = self._model.predict([self._cases[number].image for number in numbers], warn=False)
        return table_of({"number": numbers}, said)


def predict(
    dataset: Any,
    model: Path,
    *,
    column: str = "image",
    workers: int = 2,
    threads: int = 1,
    gpus: float = 0.0,
    views: int | None = None,
    batch_size: int = 32,
    **options: Any,
) -> Any:
    """Predicts the images of a Ray data set; gives a Ray data set with the other columns and the predictions.

    The `column` holds arrays (`ray.data.read_images`), encoded files' bytes, nested lists of values, or flat values with
    `height` and `width` in columns of their own (`ray.data.read_parquet`).
    At most `workers` actors predict, as many as the cluster has cores for beside what reads the images, each with so many engine `threads`, or with a share of a GPU (`gpus=0.25`). `model` is the
    name of a shipped model or a folder that every node finds. Options are those of `Model.predict`. docs/cluster.md has
    the columns; `prediction_of` makes a `Prediction` of a row.
    """
    ray = ray_with("data")
    loading = {"device": device_of(gpus), "views": views, "threads": threads}
    return dataset.map_batches(
        _OfImages,
        fn_constructor_args=(str(model), loading, column, options),
        batch_size=batch_size,
        # One at first: what reads the images needs a core, too, and would wait for ever where workers have all of them.
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=workers),
        batch_format="numpy",
        **placed(threads, gpus),
        **_FOR_EVER,
    )


def predict_files(
    source: Path,
    out: Path,
    model: Path = "lidc",
    *,
    pattern: str | None = None,
    block: int = 64,
    workers: int = 2,
    threads: int = 1,
    gpus: float = 0.0,
    views: int | None = None,
    progress: bool = True,
    **options: Any,
) -> int:
    """Predicts a folder of images, or Parquet files with a column `image`; gives the number of images.

    `out` becomes a folder of Parquet files, one for each block of images, with one row for each image. It is made exactly
    once for each image, whatever is lost on the way; called again it goes on with what is missing. `pattern` chooses the
    files of a folder (`"**/images/*.png"`). `source`, `out` and the model's folder are on a disk that every node sees.
    """
    blocks = blocks_of(source, pattern, block)
    folder = Folder(out)
    facts = {"format": "multivalued-predictions", "version": 1, "model": _hash_of(model), "views": views}
    missing = folder.begin(blocks, facts | {"options": options})
    told = _Told(sum(one.images for one in blocks), progress)
    told.add(sum(one.images for one in blocks) - sum(one.images for one in missing))
    if missing:
        ray = ray_with("data")
        loading = {"device": device_of(gpus), "views": views, "threads": threads}
        items = ray.data.from_items([{"block": one.text} for one in missing], override_num_blocks=len(missing))
        done = items.map_batches(
            _OfBlocks,
            fn_constructor_args=(str(model), loading, str(folder.path), options),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=min(workers, len(missing))),
            **placed(threads, gpus),
            **_FOR_EVER,
        )
        for row in done.iter_rows():
            told.add(int(row["images"]))
    told.end()
    return folder.check(blocks)


def evaluate(
    data: Path | Dataset,
    model: Path,
    *,
    split: str | None = None,
    workers: int = 2,
    threads: int = 1,
    gpus: float = 0.0,
    views: int | None = None,
    block: int = 64,
    resamples: int = 1000,
    **options: Any,
) -> Report:
    """The scores of a model on a data set that many machines predict, as `Model.evaluate` gives them.

    `data` is a folder that every node sees, or a `Dataset`, which is sent to them. Without `split` all of a
    `Dataset` is scored, and of a folder the test part, or all where it states no parts. Options are those of
    `read_dataset`. Images are predicted by the workers and scored here.
    """
    ray = ray_with("data")
    whole = data if isinstance(data, Dataset) else read_dataset(data, **options)
    part, cases = ("all", data) if isinstance(data, Dataset) and split is None else _part(whole, split)
    placing = {"compute": ray.data.ActorPoolStrategy(size=workers), **placed(threads, gpus), **_FOR_EVER}
    if isinstance(data, Dataset):
        items = ray.data.from_items([{"number": at, "image": case.image} for at, case in enumerate(cases)])
        said = predict(items, model, workers=workers, threads=threads, gpus=gpus, views=views, batch_size=block)
    else:
        loading = {"device": device_of(gpus), "views": views, "threads": threads}
        items = ray.data.from_items([{"number": at} for at in range(len(cases))])
        folder = str(pathlib.Path(data).absolute())
        said = items.map_batches(
            _OfCases, fn_constructor_args=(str(model), loading, folder, split, options), batch_size=block, **placing
        )
    rows = {int(row["number"]): prediction_of(row) for row in said.iter_rows()}
    outputs = [rows[at]._set() for at in range(len(cases))]
    return Report(*_native.report_of_cases(cases._cases, outputs, part, whole.hash, resamples))


def read_predictions(out: Path) -> Iterator[dict[str, Any]]:
    """The rows that `predict_files` wrote, in the order of the images; `prediction_of` makes a `Prediction` of one."""
    import pyarrow.parquet as parquet

    for file in sorted(pathlib.Path(out).glob("block-*.parquet")):
        yield from parquet.read_table(file).to_pylist()


def _part(dataset: Dataset, split: str | None) -> tuple[str, Dataset]:
    """The part of a folder that is scored, with its name."""
    if split is None and not any(dataset._cases.parts):
        return "all", dataset
    name = {None: "test", "val": "validation"}.get(split, split or "test")
    return name, dataset.part(name)


def _hash_of(model: Path) -> str:
    """What tells one model from another: its weights and its recipe, or those of its members."""
    folder = load(model, device="cpu").path
    wanted = ("*.safetensors", "*.toml", "mixture.json", "best/*", "*/*.safetensors", "*/*.toml", "*/best/*")
    files = sorted({file for pattern in wanted for file in folder.glob(pattern) if file.is_file()})
    hashed = hashlib.sha256()
    for file in files:
        hashed.update(file.relative_to(folder).as_posix().encode() + file.read_bytes())
    return hashed.hexdigest()


class _Told:
    """How many images are done, on standard error."""

    def __init__(self, total: int, wanted: bool) -> None:
        self._total, self._done, self._wanted = total, 0, wanted
        self._began = self._last = time.monotonic()

    def add(self, images: int) -> None:
        self._done += images
        now = time.monotonic()
        if self._wanted and now - self._last >= 2:
            self._last = now
            print(f"{self._done} of {self._total} images", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._wanted:
            seconds = time.monotonic() - self._began
            print(f"{self._done} of {self._total} images in {seconds:.0f} s", file=sys.stderr, flush=True)
