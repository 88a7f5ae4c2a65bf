"""Which images there are, cut into blocks: a block is predicted by one worker at once and becomes one file.

A block's images and its file's name depend on the list of images alone. A file appears under its name only when it is
complete, and a block that two workers predicted is the same file twice. So every image is in the result exactly once,
whichever worker was lost, and a run that was interrupted goes on with the blocks that have no file.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .._arrays import Array
from .._data import read_image
from .._options import Path
from ._images import image_of

SUFFIXES = frozenset((".png", ".tif", ".tiff", ".jpg", ".jpeg", ".npy", ".npz", ".nii", ".gz", ".mha", ".mhd", ".nrrd"))
"""Endings of files that are taken for images where no pattern is given."""


@dataclass(frozen=True)
class Block:
    """Images that are predicted together."""

    number: int
    source: str
    """The folder of the images, or the Parquet file."""
    names: tuple[str, ...]
    """Of a folder: the images' paths in it."""
    first: int = 0
    """Of a Parquet file: the first row."""
    rows: int = 0
    """Of a Parquet file: how many rows."""

    @property
    def images(self) -> int:
        """How many images it has."""
        return self.rows or len(self.names)

    @property
    def text(self) -> str:
        """The block as JSON, to be sent to a worker."""
        return json.dumps(asdict(self))

    @classmethod
    def of_text(cls, text: str) -> Block:
        """The block of a `text`."""
        fields = json.loads(text)
        return cls(**fields | {"names": tuple(fields["names"])})

    @property
    def file(self) -> str:
        """The name of its file."""
        return f"block-{self.number:06}.parquet"

    def read(self) -> tuple[list[str], list[Array]]:
        """The images with their ids."""
        if not self.rows:
            return list(self.names), [read_image(os.path.join(self.source, name)) for name in self.names]
        import pyarrow.parquet as parquet

        table = parquet.ParquetFile(self.source)
        rows = _rows(table, self.first, self.rows)
        ids = [_id_of(row, self.source, self.first + at) for at, row in enumerate(rows)]
        return ids, [image_of(row.get("image"), (row.get("height"), row.get("width"))) for row in rows]


def blocks_of(source: Path, pattern: str | None, size: int) -> list[Block]:
    """The blocks of a folder of images, of a Parquet file or of a folder of Parquet files."""
    place = pathlib.Path(source).absolute()
    if not place.exists():
        raise FileNotFoundError(f"{source}: there is no such file or folder; check the path")
    if size < 1:
        raise ValueError(f"block is {size}; a block has at least one image")
    tables = [place] if place.suffix == ".parquet" else sorted(place.rglob("*.parquet")) if place.is_dir() else []
    if tables and pattern is None:
        return _numbered(_of_tables(tables, size))
    files = sorted(place.glob(pattern)) if pattern else sorted(place.rglob("*")) if place.is_dir() else [place]
    files = [file for file in files if file.is_file() and (pattern or file.suffix.lower() in SUFFIXES)]
    if not files:
        raise ValueError(f"{source}: no images here; give a folder of images, a Parquet file, or a pattern")
    folder = place if place.is_dir() else place.parent
    names = [file.relative_to(folder).as_posix() for file in files]
    cut = (tuple(names[at : at + size]) for at in range(0, len(names), size))
    return _numbered(Block(0, str(folder), part) for part in cut)


def _of_tables(tables: Sequence[pathlib.Path], size: int) -> Iterator[Block]:
    import pyarrow.parquet as parquet

    for table in tables:
        count = parquet.ParquetFile(table).metadata.num_rows
        for first in range(0, count, size):
            yield Block(0, str(table), (), first, min(size, count - first))


def _numbered(blocks: Iterator[Block]) -> list[Block]:
    return [Block(number, one.source, one.names, one.first, one.rows) for number, one in enumerate(blocks)]


def _rows(table: Any, first: int, count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    at = 0
    for group in range(table.num_row_groups):
        rows = table.metadata.row_group(group).num_rows
        if at < first + count and at + rows > first:
            part = table.read_row_group(group)
            found += part.slice(max(0, first - at), first + count - max(at, first)).to_pylist()
        at += rows
    return found


def _id_of(row: dict[str, Any], source: str, number: int) -> str:
    name = next((row[key] for key in ("id", "path", "name") if row.get(key) is not None), None)
    return f"{pathlib.Path(source).stem}-{number:08}" if name is None else str(name)


class Folder:
    """Where blocks become files."""

    def __init__(self, path: Path) -> None:
        self.path = pathlib.Path(path).absolute()

    def begin(self, blocks: Sequence[Block], facts: dict[str, Any]) -> list[Block]:
        """The blocks that are still to be predicted. A folder of other images or another model is refused."""
        listed = json.dumps([[one.source, one.names, one.first, one.rows] for one in blocks])
        own = facts | {"blocks": len(blocks), "images": sum(one.images for one in blocks)}
        own["inputs"] = hashlib.sha256(listed.encode()).hexdigest()
        self.path.mkdir(parents=True, exist_ok=True)
        plan = self.path / "predictions.json"
        if plan.is_file():
            before = json.loads(plan.read_text())
            different = [key for key, value in own.items() if before.get(key) != value]
            if different:
                raise ValueError(
                    f"{self.path}: holds predictions of other settings ({', '.join(different)} differ); choose another "
                    "folder, or delete it"
                )
        else:
            self._write(plan.name, json.dumps(own, indent=1).encode())
        return [one for one in blocks if not (self.path / one.file).is_file()]

    def put(self, block: Block, table: Any) -> None:
        """Writes a block's file."""
        import pyarrow.parquet as parquet

        fresh = self.path / f".{block.file}.{uuid.uuid4().hex}"
        try:
            parquet.write_table(table, fresh)
            os.replace(fresh, self.path / block.file)
        finally:
            fresh.unlink(missing_ok=True)

    def check(self, blocks: Sequence[Block]) -> int:
        """The number of images; an error where a block's file does not have one row for each of its images."""
        import pyarrow.parquet as parquet

        for one in blocks:
            rows = parquet.ParquetFile(self.path / one.file).metadata.num_rows
            if rows != one.images:
                raise ValueError(f"{self.path / one.file}: {rows} rows for {one.images} images; delete it and go on")
        for left in self.path.glob(".block-*"):
            # Of workers that were lost while they wrote.
            left.unlink(missing_ok=True)
        return sum(one.images for one in blocks)

    def _write(self, name: str, content: bytes) -> None:
        fresh = self.path / f".{name}.{uuid.uuid4().hex}"
        fresh.write_bytes(content)
        os.replace(fresh, self.path / name)
