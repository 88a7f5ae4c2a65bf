"""One image in; a short, varying list of plausible masks out, each with an honest probability.

>>> import multivalued as mv
>>> model = mv.load("shapes")
>>> case = mv.generate("shapes", {"test": 1})[0]
>>> prediction = model.predict(case.image)
>>> prediction.masks.shape[1:], bool(abs(prediction.probabilities.sum() - 1) < 1e-5)
((160, 160), True)

| name | what it is for |
|---|---|
| `load` | a model: one of `SHIPPED`, or a folder |
| `train`, `resume`, `plan`, `Run` | training on arrays, on a data set's folder, or by a recipe |
| `Dataset`, `read_dataset`, `generate`, `validate`, `read_image` | data |
| `recipe`, `recipes` | recipes as dictionaries |
| `metrics` | weighted or sampled sets of masks of any method, compared with readers |
| `export`, `combine` | models to hand on |

| `ray` | predictions, evaluations, sweeps and trainings on many machines; needs Ray |

What the functions are doing is said through the logger "multivalued".
"""

import importlib as _importlib
from typing import Any as _Any

from . import metrics
from ._data import Case, Dataset, generate, read_dataset, read_image, tasks, validate
from ._model import SHIPPED, Model, UnlikeTrainingData, combine, export, load
from ._native import DeviceError, __version__
from ._prediction import Prediction
from ._progress import Progress
from ._recipe import recipe, recipe_toml, recipes
from ._report import Report
from ._train import Plan, Run, open_run, plan, resume, train

__all__ = [
    "SHIPPED",
    "Case",
    "Dataset",
    "DeviceError",
    "Model",
    "Plan",
    "Prediction",
    "Progress",
    "Report",
    "Run",
    "UnlikeTrainingData",
    "__version__",
    "combine",
    "export",
    "generate",
    "load",
    "metrics",
    "open_run",
    "plan",
    "read_dataset",
    "read_image",
    "recipe",
    "recipe_toml",
    "recipes",
    "resume",
    "tasks",
    "train",
    "validate",
]


def __getattr__(name: str) -> _Any:
    """`multivalued.ray` is imported when it is first asked for."""
    if name == "ray":
        return _importlib.import_module(".ray", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
