"""What `multivalued.ray` does without Ray: images in the cells of tables, and scores of cases that were predicted
elsewhere. The rest is in scripts/test-cluster, which needs Ray."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

import multivalued as mv
from multivalued import _native
from multivalued.ray._images import image_of


def test_a_cell_is_an_image_in_any_of_its_forms(tmp_path: pathlib.Path) -> None:
    mv.generate("shapes", {"test": 1}, size=32).write(tmp_path / "data")
    file = next((tmp_path / "data/images").glob("*.png"))
    image = mv.read_image(file)
    nested = np.empty(32, object)
    nested[:] = list(image)
    for cell in (file.read_bytes(), {"bytes": file.read_bytes(), "path": file.name}, image, image.tolist(), nested):
        assert np.array_equal(image_of(cell), image)
    assert np.array_equal(image_of(image.ravel(), (32, 32)), image)
    colours = np.arange(24).reshape(2, 4, 3)
    assert np.array_equal(image_of(colours.ravel(), (2, 4)), colours)


def test_cells_that_are_no_images_are_refused_with_a_remedy() -> None:
    ragged = np.empty(2, object)
    ragged[:] = [np.zeros(2), np.zeros(3)]
    for cell, size, said in (
        (None, None, "no column 'image'"),
        (b"GIF89a", None, "no PNG, TIFF, JPEG or NPY file"),
        ([1, 2, 3, 4], None, "columns 'height' and 'width'"),
        ([1, 2, 3, 4], (None, None), "columns 'height' and 'width'"),
        ([1, 2, 3, 4], (3, 1), "4 values, and height 3 and width 1"),
        (ragged, None, "no list of rows of one length"),
    ):
        with pytest.raises(ValueError, match=said):
            image_of(cell, size)


def test_cases_that_were_predicted_elsewhere_have_the_same_report() -> None:
    cases = mv.generate("shapes", {"test": 4}, size=64)
    model = mv.load("shapes", views=1, device="cpu")
    outputs = [one._set() for one in model.predict(cases.images, warn=False)]
    document, table = _native.report_of_cases(cases._cases, outputs, "all", cases.hash, 1000)
    alone = model.evaluate(cases)
    assert mv.Report(document).json == alone.json and table == str(alone)
