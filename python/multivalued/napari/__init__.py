"""A napari widget: pick an image and a model, and see the plausible masks as label layers.

The most probable ones that hold a share of the probability are shown; a slider chooses the share. Needs napari.
"""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
from magicgui.types import FileDialogMode
from magicgui.widgets import ComboBox, Container, FileEdit, FloatSlider, Label, PushButton
from napari.layers import Image

from .._model import SHIPPED, Model, load
from .._prediction import Prediction

FOLDER = "a folder …"
"""The choice that asks for a model's folder."""


def shown(prediction: Prediction, share: float) -> int:
    """How many hypotheses, the most probable first, are needed to hold a share of the probability; at least one.

    >>> import numpy as np
    >>> p = Prediction(np.zeros((3, 2, 2), bool), np.array([0.5, 0.3, 0.2], np.float32))
    >>> [shown(p, share) for share in (0.0, 0.5, 0.6, 0.8, 1.0)]
    [1, 1, 2, 2, 3]
    """
    held = np.cumsum(prediction.probabilities, dtype=np.float64)
    # The probabilities are float32: a share that they reach but for rounding is reached.
    return int(np.searchsorted(held, share - 1e-6)) + 1 if share < held[-1] - 1e-6 else len(prediction)


class Hypotheses(Container[Any]):
    """The widget."""

    def __init__(self, napari_viewer: Any) -> None:
        # The name by which napari hands it over.
        self._viewer = napari_viewer
        self._image = ComboBox(choices=self._images, nullable=True, label="image")
        self._model = ComboBox(choices=[*SHIPPED, FOLDER], value=SHIPPED[0], label="model")
        self._folder = FileEdit(mode=FileDialogMode.EXISTING_DIRECTORY, label="folder", visible=False)
        self._predict = PushButton(text="Predict")
        self._share = FloatSlider(min=0.0, max=1.0, step=0.01, value=0.9, label="share shown")
        self._words = Label(value="")
        super().__init__(widgets=[self._image, self._model, self._folder, self._predict, self._share, self._words])
        self._model.changed.connect(self._choose)
        self._predict.changed.connect(self.predict)
        self._share.changed.connect(self._show)
        for event in (napari_viewer.layers.events.inserted, napari_viewer.layers.events.removed):
            event.connect(self._look_for_images)
        self._loaded: tuple[str, Model] | None = None
        self.prediction: Prediction | None = None
        """What was said of the image last."""
        self.layers: list[Any] = []
        """The label layers of the hypotheses, the most probable first."""
        self._look_for_images()

    def _images(self, _: object = None) -> list[Any]:
        return [layer for layer in self._viewer.layers if isinstance(layer, Image)]

    def _look_for_images(self, _: object = None) -> None:
        chosen = self._image.value
        self._image.reset_choices()
        images = self._images()
        # What was chosen stays; a first image is chosen by itself.
        self._image.value = chosen if chosen in images else next(iter(images), None)

    def _choose(self, name: str) -> None:
        self._folder.visible = name == FOLDER

    def _model_of_choice(self) -> Model:
        name = str(self._folder.value) if self._model.value == FOLDER else str(self._model.value)
        if self._loaded is None or self._loaded[0] != name:
            self._loaded = (name, load(pathlib.Path(name) if self._model.value == FOLDER else name))
        return self._loaded[1]

    def predict(self) -> None:
        """Predicts the chosen image and shows its hypotheses."""
        layer = self._image.value
        if layer is None:
            self._words.value = "open an image first"
            return
        try:
            model = self._model_of_choice()
            said = model.predict([_plane(self._viewer, layer, model.channels)], warn=False)[0]
        except (ValueError, OSError, RuntimeError) as error:
            self._words.value = str(error)
            return
        self._clear()
        self.prediction = said
        classes = np.arange(1, said.classes + 1)
        for at, (mask, probability) in enumerate(zip(said.masks, said.probabilities)):
            words = "" if mask.any() else ", empty"
            name = f"{at + 1}: {100 * float(probability):.1f} %{words}"
            # Every hypothesis in a colour of its own; of several classes each class in the label's.
            labels = mask.astype(np.int32) * (at + 1 if len(classes) == 1 else 1)
            shape = {"scale": layer.scale[-2:], "translate": layer.translate[-2:]}
            self.layers.append(self._viewer.add_labels(labels, name=name, opacity=0.5, **shape))
        self._show(self._share.value)
        if said.warnings:
            self._words.value = f"unlike the training data: {said.warnings[0]}"

    def _show(self, share: float) -> None:
        if self.prediction is None:
            return
        kept = shown(self.prediction, share)
        for at, layer in enumerate(self.layers):
            layer.visible = at < kept
        held = 100 * float(self.prediction.probabilities[:kept].sum())
        self._words.value = f"{kept} of {len(self.prediction)} masks, {held:.1f} % of the probability"

    def _clear(self) -> None:
        for layer in self.layers:
            # The user may have taken it away.
            if layer in self._viewer.layers:
                self._viewer.layers.remove(layer)
        self.layers = []


def _plane(viewer: Any, layer: Any, channels: int) -> Any:
    """The pixels that are shown: of a stack the slice at hand."""
    data = np.asarray(layer.data)
    flat = 3 if getattr(layer, "rgb", False) else 2
    step = tuple(int(at) for at in viewer.dims.current_step)
    while data.ndim > flat:
        data = data[min(step[len(step) - (data.ndim - flat) - 2], len(data) - 1)]
    if flat == 3 and channels == 1:
        raise ValueError(f"{layer.name} has shape {data.shape}: colours, and the model takes one channel; split them")
    return data
