"""The napari plugin: its manifest, and the widget in a viewer without a screen."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
npe2 = pytest.importorskip("npe2")
napari = pytest.importorskip("napari")


@pytest.fixture()
def viewer(qapp: Any) -> Any:
    """A viewer without a window: what there is without a screen, where OpenGL is not to be had."""
    from napari.components import ViewerModel

    return ViewerModel()


def test_the_manifest_is_valid_and_found() -> None:
    manifest = npe2.PluginManifest.from_distribution("multivalued")
    manifest.validate_imports()
    [widget], [command] = manifest.contributions.widgets, manifest.contributions.commands
    assert widget.display_name == "Plausible masks" and widget.command == command.id
    from npe2.manifest.utils import import_python_name

    from multivalued.napari import Hypotheses

    assert import_python_name(command.python_name) is Hypotheses


def test_hypotheses_are_label_layers_and_the_slider_chooses(viewer: Any, slice_like: npt.NDArray[np.uint8]) -> None:
    from multivalued.napari import Hypotheses, shown

    widget = Hypotheses(viewer)
    widget.predict()
    assert "open an image first" in widget._words.value
    viewer.add_image(slice_like, scale=(0.5, 0.7))
    widget.predict()
    assert widget.prediction is not None and len(widget.layers) == len(widget.prediction) > 3
    first = widget.layers[0]
    assert first.name.startswith("1: ") and " %" in first.name
    assert np.array_equal(np.asarray(first.data) > 0, widget.prediction.masks[0])
    assert np.allclose(first.scale, (0.5, 0.7))
    for share in (0.0, 0.5, 0.9, 1.0):
        widget._share.value = share
        kept = shown(widget.prediction, share)
        assert [layer.visible for layer in widget.layers] == [at < kept for at in range(len(widget.layers))]
        assert widget._words.value.startswith(f"{kept} of {len(widget.layers)} masks")
    # A second prediction takes the place of the first.
    widget.predict()
    assert len(viewer.layers) == 1 + len(widget.layers)


def test_stacks_and_errors_are_told(viewer: Any, slice_like: npt.NDArray[np.uint8], tmp_path: Any) -> None:
    from multivalued.napari import FOLDER, Hypotheses

    # The image may be there before the widget.
    viewer.add_image(np.stack([0 * slice_like, slice_like]))
    widget = Hypotheses(napari_viewer=viewer)
    viewer.dims.set_current_step(0, 1)
    widget.predict()
    assert widget.prediction is not None and len(widget.prediction) > 3
    widget._model.value = FOLDER
    widget._folder.value = tmp_path
    widget.predict()
    assert "is no run" in widget._words.value


@pytest.mark.skipif("DISPLAY" not in os.environ, reason="needs a screen, such as xvfb-run gives")
def test_the_widget_opens_in_a_window_by_its_name(slice_like: npt.NDArray[np.uint8]) -> None:
    window = napari.Viewer(show=False)
    window.add_image(slice_like)
    _, widget = window.window.add_plugin_dock_widget("multivalued", "Plausible masks")
    widget.predict()
    assert len(window.layers) == 1 + len(widget.prediction)
    window.close()
