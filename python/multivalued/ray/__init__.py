"""Many machines by Ray: predictions, evaluations, sweeps, and data-parallel training.

| name | what it is for |
|---|---|
| `predict` | a Ray data set of images in, one of predictions out |
| `predict_files` | a folder or Parquet files of images in, Parquet files out, each image exactly once |
| `evaluate` | the scores of a model on a data set, predicted on many machines |
| `sweep` | recipes, seeds and folds, each a training of its own |
| `train` | one training, by several workers together |
| `read_predictions`, `prediction_of` | what was written, and a row of it as a `Prediction` |

`python -m multivalued.ray predict IN OUT` is `predict_files` as a command. docs/cluster.md has examples.
"""

from ._predict import evaluate, predict, predict_files, read_predictions
from ._rows import prediction_of
from ._sweep import sweep
from ._train import train

__all__ = ["evaluate", "predict", "predict_files", "prediction_of", "read_predictions", "sweep", "train"]
