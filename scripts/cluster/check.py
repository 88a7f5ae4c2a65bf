"""What must hold of a training by several processes, and of predictions and sweeps by Ray; run by scripts/test-cluster.

python scripts/cluster/check.py [ranks] [lost] [train] [ray] [tables] [sweep]
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator

HERE = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(sys.executable).parent
LIDC = HERE.parent / "shared" / "data" / "lidc-test.tar.zst"
SOON = 10.0
"""Seconds within which all processes end after one was killed."""

# A data set of eight images and a batch of eight: every epoch is one step, and the log has the losses of every step.
STEPS = [
    "data.size=32", "data.train_count=8", "data.validation_count=2", "data.test_count=2", "train.batch=8",
    "train.epochs=0", "train.steps=10", "train.warmup_steps=2", "train.validate_every=1000", "model.channels=[8, 16]",
]  # fmt: skip
# Embeddings begin nearly alike, so that rounding alone may decide which code is the nearest, and a training that has once
# decided otherwise is another one. Small steps and more images keep rounding as small as it is: over six seeds losses
# differ by at most 5e-5 in 10 steps; with the rate and the batch of STEPS half of the seeds part.
EMBEDDING = [
    "assignment.space=embedding", "assignment.active_codes=0", "model.code_count=16", "model.code_dim=16",
    "train.learning_rate=0.0003", "train.batch=16", "data.train_count=16",
]  # fmt: skip
TRAINING = [
    "data.size=32", "data.train_count=64", "data.validation_count=8", "data.test_count=400", "train.batch=8",
    "train.epochs=0", "train.steps=240", "train.warmup_steps=20", "train.validate_every=1000",
    "model.channels=[8, 16]", "model.code_count=16", "assignment.active_codes=8",
]  # fmt: skip


def train(out: pathlib.Path, sets: list[str]) -> list[str]:
    """The arguments of a training."""
    changes = [word for change in sets for word in ("--set", change)]
    return [
        "-m",
        "multivalued",
        "train",
        "shapes-tiny",
        "--device",
        "cpu",
        "--out",
        str(out),
        "--save-every",
        "2",
        *changes,
    ]


def alone(arguments: list[str]) -> list[str]:
    return [sys.executable, *arguments]


def torchrun(arguments: list[str], processes: int = 2) -> list[str]:
    own = ["--standalone", "--nproc-per-node", str(processes), *arguments]
    return [sys.executable, "-m", "torch.distributed.run", *own]


def mpirun(arguments: list[str], processes: int = 2, *options: str) -> list[str]:
    return [str(BIN / "mpiexec"), *options, "-n", str(processes), sys.executable, *arguments]


def run(command: list[str], ends: tuple[int, ...] = (0, 1), seconds: float = 240, **variables: str) -> str:
    """Runs a command to its end; gives what it said. Where it ends otherwise than it should, all of it is shown."""
    began = time.monotonic()
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | variables
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=seconds)
    said = done.stdout + done.stderr
    if done.returncode not in ends:
        raise SystemExit(f"{' '.join(command)}\nended with {done.returncode}, not with one of {ends}:\n{said}")
    print(f"  {time.monotonic() - began:5.1f} s  {' '.join(command[1:6])} ...", flush=True)
    return said


def records(out: pathlib.Path) -> list[dict]:
    return [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


def losses(out: pathlib.Path) -> list[dict[str, float]]:
    """The terms of the loss of every step."""
    found = [one for one in records(out) if one["kind"] == "epoch"]
    return [{name: value for name, value in one["numbers"].items() if name.startswith("loss.")} for one in found]


def difference(a: list[dict[str, float]], b: list[dict[str, float]]) -> float:
    """The largest relative difference of two trainings' losses."""
    assert len(a) == len(b) == 10 and a[0].keys() == b[0].keys(), (len(a), len(b))
    pairs = [(one[name], other[name]) for one, other in zip(a, b) for name in one]
    return max(abs(x - y) / max(abs(x), 1e-2) for x, y in pairs)


def expect(holds: bool, words: str) -> None:
    print(f"  {'holds' if holds else 'FAILS'}: {words}", flush=True)
    if not holds:
        raise SystemExit(f"does not hold: {words}")


def ranks(place: pathlib.Path) -> None:
    """Two processes compute what one computes with the whole batch."""
    for kind, sets in (("outputs", STEPS), ("embeddings", STEPS + EMBEDDING)):
        one, torch_two = place / f"{kind}-1", place / f"{kind}-torch"
        run(alone(train(one, sets)))
        run(torchrun(train(torch_two, sets)))
        found = difference(losses(one), losses(torch_two))
        expect(found < 1e-4, f"by {kind}: two processes by torchrun differ from one by {found:.1e} in 10 steps")
        # Every epoch the ranks compare their weights to the bit, and end where they differ; the next control shows it.
        if kind == "embeddings":
            mpi_two, control = place / f"{kind}-mpi", place / f"{kind}-control"
            run(mpirun(train(mpi_two, sets)))
            found = difference(losses(one), losses(mpi_two))
            expect(found < 1e-4, f"by {kind}: two processes by mpirun differ from one by {found:.1e} in 10 steps")
            run(torchrun(train(control, sets)), MULTIVALUED_TEST_UNREDUCED="the batch statistics")
            found = difference(losses(one), losses(control))
            expect(found > 1e-4, f"control: without the others' batch statistics they differ by {found:.1e}")
        else:
            said = run(torchrun(train(place / "drift", sets)), ends=(1, 2), MULTIVALUED_TEST_UNREDUCED="the gradients")
            expect("rank 1 of 2 differs from rank 0" in said, "control: ranks whose weights differ are noticed")
    found = []
    # MPI starts in a tenth of the time that PyTorch takes.
    for seed, command in ((1, torchrun), (2, mpirun), (3, mpirun)):
        one, two = place / f"long-{seed}-1", place / f"long-{seed}-2"
        sets = [*TRAINING, f"train.seed={seed}"]
        run(alone(train(one, sets)))
        run(command(train(two, sets)))
        a, b = (json.loads((out / "report.json").read_text())["summary"]["ged_exact"] for out in (one, two))
        expect(abs(a - b) <= 0.02 * a, f"exact GED after a small training: {a:.4f} by one process, {b:.4f} by two")
        expect(a < 0.2, "the training has learned something")
        found.append((a, b))
    # Where two codes are as near, rounding decides, and trainings part by chance: the means of three must be nearer.
    a, b = (sum(column) / len(found) for column in zip(*found))
    expect(abs(a - b) <= 0.01 * a, f"over three seeds: {a:.4f} by one process, {b:.4f} by two")
    files = sorted(path.name for path in two.iterdir())
    expect(files == sorted(path.name for path in one.iterdir()), "the run folders hold the same files")


def processes() -> Iterator[tuple[int, str, dict[str, str]]]:
    """The id, the command and the environment of every process of this user."""
    for entry in pathlib.Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            pairs = (entry / "environ").read_bytes().decode(errors="replace").split("\0")
            yield int(entry.name), command, dict(pair.split("=", 1) for pair in pairs if "=" in pair)
        except (OSError, ValueError):
            continue


def killed(
    command: list[str],
    mark: str,
    ready: Callable[[], bool],
    victim: Callable[[str, dict[str, str]], bool],
    by: signal.Signals = signal.SIGKILL,
    longest: float = 300,
) -> tuple[str, float, int]:
    """Starts a command, kills one of its processes, and gives what was said, how long all took to end, and the exit
    code of the command."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MULTIVALUED_TEST_MARK": mark}
    said = tempfile.TemporaryFile("w+")
    started = subprocess.Popen(command, env=environment, stdout=said, stderr=said)
    own = lambda: [one for one in processes() if one[2].get("MULTIVALUED_TEST_MARK") == mark]  # noqa: E731
    end = time.monotonic() + 120
    while not ready():
        if started.poll() is not None or time.monotonic() > end:
            started.kill()
            said.seek(0)
            raise SystemExit(f"{' '.join(command)}\nwas not ready to be disturbed:\n{said.read()}")
        time.sleep(0.2)
    victims = [pid for pid, words, variables in own() if victim(words, variables)]
    if not victims:
        started.kill()
        raise SystemExit(f"no process to kill among {[words for _, words, _ in own()]}")
    os.kill(victims[0], by)
    began = time.monotonic()
    code = started.wait(timeout=longest)
    # What it has started must end, too.
    while own() and time.monotonic() - began < longest + 60:
        time.sleep(0.2)
    seconds = time.monotonic() - began
    said.seek(0)
    return said.read(), seconds, code


def lost(place: pathlib.Path) -> None:
    """One of two processes is killed: the other ends soon with a sentence, and the run goes on with any number."""
    # Far more steps than there is time for; the resumed ones are told to stop.
    sets = [one for one in TRAINING if not one.startswith("train.steps")] + ["train.steps=100000"]
    for kind, command, by in (
        ("torchrun", torchrun, signal.SIGKILL),
        # MPICH's launcher ends the others itself where one is killed; one that hangs they must notice themselves.
        ("mpirun", mpirun, signal.SIGSTOP),
    ):
        out = place / kind
        name = "RANK" if kind == "torchrun" else "PMI_RANK"
        said, seconds, code = killed(
            command(train(out, sets)),
            uuid.uuid4().hex,
            lambda out=out: (out / "last" / "state.json").is_file(),
            lambda words, variables, name=name: variables.get(name) == "1" and "multivalued" in words,
            by,
        )
        sentence = next((line for line in said.splitlines() if "another rank has ended" in line), "")
        expect(seconds < SOON, f"{kind}: all have ended {seconds:.1f} s after {by.name} to one, code {code}")
        expect("--resume" in sentence, f"{kind}: says {sentence!r}")
        expect(not list(out.glob("**/*.new")), f"{kind}: nothing is left half written")
    at = json.loads((place / "torchrun" / "last" / "state.json").read_text())["training"]["step"]
    for kind, command in (("1 process", alone), ("2 processes", torchrun)):
        out = place / f"resumed-{kind[0]}"
        shutil.copytree(place / "torchrun", out)
        words = ["-m", "multivalued", "train", "--resume", "--device", "cpu", "--out", str(out)]
        stopped(command(words), out, at)
        records_after = records(out)
        went_on = [one for one in records_after if one["kind"] == "start"][-1]["step"]
        end = records_after[-1]
        expect(went_on == at and end["step"] > at, f"goes on with {kind} from step {went_on} to {end['step']}")


def stopped(command: list[str], out: pathlib.Path, at: int) -> None:
    """Runs a training until it has logged a step after `at`, and asks it to stop."""
    started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    end = time.monotonic() + 120
    while not any(one["kind"] in ("step", "epoch") and one["step"] > at for one in records(out)):
        if started.poll() is not None or time.monotonic() > end:
            raise SystemExit(f"{' '.join(command)} ended with {started.poll()} before it made a step")
        time.sleep(0.3)
    os.killpg(started.pid, signal.SIGINT)
    started.wait(timeout=60)


def ray_train(place: pathlib.Path) -> None:
    """Ray Train's workers compute what one process computes."""
    import multivalued as mv

    one, two = place / "one", place / "two"
    run(alone(train(one, STEPS)))
    recipe = json.loads(mv._native.recipe("shapes-tiny", None, STEPS))
    mv.ray.train(recipe=recipe, out=two, workers=2, threads=1)
    found = difference(losses(one), losses(two))
    expect(found < 1e-4, f"two workers of Ray Train differ from one process by {found:.1e} in 10 steps")


def lidc(place: pathlib.Path) -> tuple[pathlib.Path, int]:
    """Images to predict: of the LIDC test set where it is there, else synthetic ones."""
    wanted = os.environ.get("MULTIVALUED_LIDC_IMAGES", "96")
    if not LIDC.is_file() or shutil.which("zstd") is None:
        import multivalued as mv

        print("  skipped: no LIDC test set beside the checkout (or no zstd); synthetic images in its place")
        mv.generate("raters", {"test": 64}, size=128).write(place / "images")
        return place / "images", 64
    with subprocess.Popen(["zstd", "-dc", str(LIDC)], stdout=subprocess.PIPE) as unpacked:
        with tarfile.open(fileobj=unpacked.stdout, mode="r|") as archive:
            archive.extractall(place, filter="data")
    found = sorted((place / "lidc-test").glob("*/*/images/*.png"))
    count = len(found) if wanted == "all" else min(int(wanted), len(found))
    for file in found[:count]:
        to = place / "some" / file.relative_to(place / "lidc-test")
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(file.read_bytes())
    return place / "some", count


def ray_predict(place: pathlib.Path) -> None:
    """Two actors, one of which is killed: one row for each image, equal to the local result to the bit."""
    import multivalued as mv

    images, count = lidc(place)
    pattern = "**/images/*.png"
    out, views = place / "predictions", "1"
    words = ["-m", "multivalued.ray", "predict", str(images), str(out), "--pattern", pattern]
    command = [sys.executable, *words, "--model", "lidc", "--views", views, "--block", "8", "--workers", "2"]
    said, seconds, code = killed(
        command,
        uuid.uuid4().hex,
        lambda: any(out.glob("block-*.parquet")),
        lambda words, _: words.startswith("ray::") and "_OfBlocks" in words,
        longest=300 + count / 4,
    )
    expect(code == 0, f"the prediction ends by itself after an actor was killed, {seconds:.0f} s later")
    if code:
        print(said)
    rows = list(mv.ray.read_predictions(out))
    names = sorted(file.relative_to(images).as_posix() for file in images.glob(pattern))
    expect(
        len(names) == count and [row["id"] for row in rows] == names,
        f"{len(rows)} rows for {count} images, one for each",
    )
    model = mv.load("lidc", views=int(views), device="cpu")
    local = model.predict([mv.read_image(images / name) for name in names], warn=False)
    expect(same_predictions(rows, local), "masks, probabilities and codes are those of Model.predict to the bit")
    before = {file: file.stat().st_mtime_ns for file in out.glob("block-*")}
    next(iter(before)).unlink()
    expect(
        mv.ray.predict_files(images, out, "lidc", pattern=pattern, views=1, block=8, progress=False) == count, "goes on"
    )
    written = [file for file in out.glob("block-*") if before.get(file) != file.stat().st_mtime_ns]
    expect(len(written) == 1, "a block that is missing is predicted again, and no other")


def same_predictions(rows: list[dict], local: list) -> bool:
    """Whether rows of a table are what a model says here, to the bit."""
    import numpy as np

    import multivalued as mv

    return len(rows) == len(local) > 0 and all(
        np.array_equal(one.masks, other.masks)
        and one.probabilities.tobytes() == other.probabilities.tobytes()
        and np.array_equal(one.codes, other.codes)
        for one, other in zip(map(mv.ray.prediction_of, rows), local)
    )


def ray_tables(place: pathlib.Path) -> None:
    """Parquet files of images, and data sets to score: what Model.predict and Model.evaluate say."""
    import pyarrow as pa
    import pyarrow.parquet as parquet
    import ray

    import multivalued as mv

    folder = place / "data"
    mv.generate("shapes", {"train": 3, "test": 13}, size=64).write(folder)
    files = sorted((folder / "images").glob("*.png"))
    ids, images = [file.stem for file in files], [mv.read_image(file) for file in files]
    model = mv.load("shapes", views=1, device="cpu")
    local = model.predict(images, warn=False)
    sizes = {"height": [len(image) for image in images], "width": [len(image[0]) for image in images]}
    tables = {
        "files": {"image": [file.read_bytes() for file in files]},
        "rows": {"image": [image.tolist() for image in images]},
        "flat": {"image": [image.ravel().tolist() for image in images], **sizes},
    }
    for kind, columns in tables.items():
        table, out = place / f"{kind}.parquet", place / f"{kind}-out"
        # Blocks of 4 images begin and end within groups of 5 rows.
        parquet.write_table(pa.table({"id": ids, **columns}), table, row_group_size=5)
        words = ["predict", str(table), str(out), "--model", "shapes", "--views", "1", "--block", "4", "--workers", "2"]
        if kind == "files":
            run([sys.executable, "-m", "multivalued.ray", *words], ends=(0,))
        else:
            mv.ray.predict_files(table, out, "shapes", views=1, block=4, progress=False)
        rows = list(mv.ray.read_predictions(out))
        held = [row["id"] for row in rows] == ids and same_predictions(rows, local)
        expect(held, f"predict_files on Parquet ({kind}) is Model.predict to the bit")
        said = mv.ray.predict(ray.data.read_parquet(str(table)), "shapes", views=1, batch_size=4).take_all()
        said.sort(key=lambda row: row["id"])
        held = [row["id"] for row in said] == ids and same_predictions(said, local)
        expect(held, f"predict on a Ray data set of the same file ({kind}) is, too")
    arrays = ray.data.read_images(str(folder / "images"), include_paths=True)
    said = sorted(mv.ray.predict(arrays, "shapes", views=1).take_all(), key=lambda row: row["path"])
    expect(same_predictions(said, local), "predict on ray.data.read_images is, too")

    dataset = mv.read_dataset(folder)
    for kind, data, alone_ in (
        ("a folder", folder, model.evaluate(data=folder)),
        ("a Dataset", dataset, model.evaluate(dataset)),
    ):
        spread = mv.ray.evaluate(data, "shapes", views=1, block=4)
        same = [key for key in alone_.json if spread.json[key] == alone_.json[key]]
        expect(same == list(alone_.json), f"evaluate on {kind} is Model.evaluate: {', '.join(same)} are equal")
    file = place / "report.json"
    words = ["evaluate", str(folder), "--model", "shapes", "--views", "1", "--split", "train", "--json", str(file)]
    run([sys.executable, "-m", "multivalued.ray", *words], ends=(0,))
    same = json.loads(file.read_text())["summary"] == model.evaluate(data=folder, split="train").summary
    expect(same, "the command scores the part that it is asked for")


def ray_sweep(place: pathlib.Path) -> None:
    """Four runs, killed in the middle and called again."""
    sets = [one for one in TRAINING if not one.startswith("train.steps")] + ["train.steps=60"]
    out = place / "sweep"
    words = ["-m", "multivalued.ray", "sweep", "shapes-tiny", "--out", str(out), "--seeds", "1", "2", "3", "4"]
    words += [word for change in sets for word in ("--set", change)] + ["--save-every", "1"]
    mark = uuid.uuid4().hex
    killed(
        [sys.executable, *words],
        mark,
        lambda: any(out.glob("*/report.json")),
        lambda words, _: "multivalued.ray" in words and not words.startswith("ray::"),
    )
    time.sleep(1)
    before = {file: file.stat().st_mtime_ns for file in out.glob("*/report.json")}
    expect(0 < len(before) < 4, f"{len(before)} of 4 runs were finished when the sweep was killed")
    said = run([sys.executable, *words], ends=(0,))
    expect(f"4 runs, {len(before)} of them finished before" in said, "called again it goes on with the others")
    untouched = all(file.stat().st_mtime_ns == time_ for file, time_ in before.items())
    expect(untouched, "what was finished is left alone")
    table = json.loads((out / "sweep.json").read_text())
    expect(len(table) == 4 and all(0 < row["ged_exact"] < 2 for row in table), "the table has a row for each run")
    print("\n".join(said.splitlines()[-5:]))


PARTS = {"ranks": ranks, "lost": lost, "train": ray_train, "ray": ray_predict, "tables": ray_tables, "sweep": ray_sweep}


def main() -> None:
    for name in sys.argv[1:] or PARTS:
        began = time.monotonic()
        print(f"{name}: {PARTS[name].__doc__}", flush=True)
        with tempfile.TemporaryDirectory() as place:
            PARTS[name](pathlib.Path(place))
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
