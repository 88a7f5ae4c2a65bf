"""`python -m multivalued.ray`: predictions, evaluations and sweeps over a Ray cluster."""

from __future__ import annotations

import argparse
import sys

from ._predict import evaluate, predict_files
from ._sweep import shown, sweep


def main() -> int:
    """Runs the command that the arguments name, and gives the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m multivalued.ray",
        description="Work over a Ray cluster (RAY_ADDRESS), or on this machine where there is none.",
        epilog="docs/cluster.md has examples.",
    )
    commands = parser.add_subparsers(dest="command", required=True)

    one = commands.add_parser("predict", help="a folder or Parquet files of images to Parquet files of predictions")
    one.add_argument(
        "source", metavar="IN", help="a folder of images, or a Parquet file or folder with a column 'image'"
    )
    one.add_argument("out", metavar="OUT", help="the folder for the predictions; goes on with one that is not complete")
    one.add_argument(
        "--model", default="lidc", help="a shipped model or a folder that every node finds (default: lidc)"
    )
    one.add_argument("--pattern", help="which files of the folder, such as '**/images/*.png'")
    one.add_argument("--block", type=int, default=64, help="images of one output file (default: 64)")
    _workers(one)

    one = commands.add_parser("evaluate", help="the scores of a model on a data set")
    one.add_argument("data", metavar="DATA", help="a data set (docs/dataset-format.md) on a disk that every node sees")
    one.add_argument(
        "--model", default="lidc", help="a shipped model or a folder that every node finds (default: lidc)"
    )
    one.add_argument("--split", help="the part of the data set")
    one.add_argument("--json", metavar="FILE", help="write the whole report to a file")
    _workers(one)

    one = commands.add_parser("sweep", help="recipes, seeds and folds, each a training of its own")
    one.add_argument("recipes", nargs="+", metavar="RECIPE", help="recipes by name or as .toml files")
    one.add_argument("--data", help="the data set")
    one.add_argument("--out", required=True, help="the folder of all runs; goes on with one that is not complete")
    one.add_argument("--seeds", type=int, nargs="+", default=[1])
    one.add_argument("--folds", type=int, help="cross-validation: each fold a run of its own")
    one.add_argument("--set", dest="sets", action="append", default=[], metavar="KEY=VALUE", help="change a key of all")
    one.add_argument("--save-every", type=float, default=30.0, help="seconds between checkpoints (default: 30)")
    one.add_argument("--threads", type=int, default=1, help="engine threads of a run (default: 1)")
    one.add_argument("--gpus", type=float, default=0.0, help="GPUs of a run, or a share of one (default: 0)")

    given = vars(parser.parse_args())
    command = given.pop("command")
    try:
        if command == "predict":
            count = predict_files(given.pop("source"), given.pop("out"), given.pop("model"), **given)
            print(f"{count} images")
        elif command == "evaluate":
            file = given.pop("json")
            report = evaluate(given.pop("data"), given.pop("model"), **given)
            if file:
                with open(file, "w") as place:
                    place.write(report.to_json())
            print(report)
        else:
            print(shown(sweep(given.pop("recipes"), given.pop("data"), **given)))
    except (ImportError, OSError, ValueError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _workers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workers", type=int, default=2, help="actors that predict (default: 2)")
    parser.add_argument("--threads", type=int, default=1, help="engine threads of each (default: 1)")
    parser.add_argument("--gpus", type=float, default=0.0, help="GPUs of each, or a share of one (default: 0)")
    parser.add_argument("--views", type=int, help="views of each image that are averaged (default: the model's)")


if __name__ == "__main__":
    sys.exit(main())
