"""The weights of a shipped model in PyTorch say what the model says."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import multivalued as mv
from conftest import ROOT

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def reference() -> Any:
    found = importlib.util.spec_from_file_location("method", ROOT / "reference" / "method.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    before = torch.get_default_dtype()
    found.loader.exec_module(module)
    yield module
    torch.set_default_dtype(before)


@pytest.mark.parametrize("name", ["lidc", "shapes"])
def test_a_shipped_model_in_pytorch_has_equal_outputs(
    name: str, reference: Any, slice_like: npt.NDArray[np.uint8]
) -> None:
    image = slice_like if name == "lidc" else mv.generate("shapes", {"test": 1})[0].image
    model = mv.load(name, device="cpu", views=1)
    said = model.predict(image, warn=False)
    net = reference.load(model.path, model.recipe["model"]["norm_group"])
    low, high = float(image.min()), float(image.max())
    x = torch.from_numpy((np.asarray(image, np.float64) - low) / (high - low))[None, None]
    with torch.no_grad():
        codes, probabilities, logits = net.predict(x)
    by_code = {int(code): at for at, code in enumerate(codes)}
    outputs = (logits[0] > 0).numpy()
    assert len(said) > 3
    for mask, code in zip(said.masks, said.codes):
        # Values on the edge of 0 may round differently in f32.
        differing = int((outputs[by_code[int(code)]] != mask).sum())
        assert differing <= 3, (code, differing)
    # Equal outputs are merged: their probabilities are held against the mask that stands for them.
    merged = np.zeros(len(said))
    for at, output in enumerate(outputs):
        if float(probabilities[0, at]) >= model.recipe["predict"]["min_probability"]:
            nearest = max(range(len(said)), key=lambda k: mv.metrics.iou(output, said.masks[k]))
            merged[nearest] += float(probabilities[0, at])
    assert np.allclose(merged, said.probabilities, atol=1e-4), (merged, said.probabilities)
