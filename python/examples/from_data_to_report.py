# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     name: python3
# ---

# %% [markdown]
# # From data to a report
#
# One image in; a short list of plausible masks out, each with a probability. This notebook makes data of four readers
# who disagree, plans and trains a model in about half a minute on two cores, looks at what it says, and scores it.
# With your own data, give `images` and `masks` as arrays, or `data="folder"`.

# %%
import tempfile

import numpy as np

import multivalued as mv

# %% [markdown]
# ## Data
#
# A synthetic nodule that four readers draw with different margins, or overlook. `masks` of an image are
# (readers, h, w); numbers of readers may differ from image to image.

# %%
data = mv.generate("raters", {"train": 160, "validation": 40, "test": 40}, size=48)
train, test = data[: len(data) - 40], data.part("test")
case = test[0]
print(data, case.image.shape, case.masks.shape)
print("how far readers agree:", round(mv.metrics.agreement(train.masks)["mean_iou"], 3))

# %% [markdown]
# ## A plan
#
# The recipe that suits these data, with a reason for each choice.

# %%
plan = mv.plan(data, minutes=0.5, device="cpu")
for key in ("model.channels", "train.batch", "data.normalise"):
    print(f"{key}: {plan.reasons.get(key, 'the default')}")

# %% [markdown]
# ## Training
#
# `train` without a recipe plans by itself. Ctrl-C (or the stop button) saves, and `mv.resume` goes on.

# %%
folder = tempfile.TemporaryDirectory()
losses = []
run = mv.train(
    data,
    recipe=plan.recipe,
    out=f"{folder.name}/raters",
    device="cpu",
    callbacks=[lambda progress: losses.append(progress.numbers.get("loss.total"))],
)
print(run)
print("\n".join(run.verdict["findings"]))

# %% [markdown]
# ## What it says of an image
#
# In a notebook a prediction shows itself: the image, then the hypotheses with their probabilities as bars.

# %%
prediction = run.predict(case.image)
prediction

# %%
print(prediction)
print("nothing there, by the readers:", np.mean([not mask.any() for mask in case.masks]))
print("GED of this image:", round(mv.metrics.ged(prediction, case.masks), 3))
print("where answers differ most:", np.unravel_index(prediction.disagreement.argmax(), prediction.disagreement.shape))

# %% [markdown]
# ## A report
#
# Scores of the test images with 95 % intervals. Columns of `per_image` make a `pandas.DataFrame`.

# %%
report = run.evaluate(test.images, test.masks)
report

# %%
worst = int(np.argmax(report.per_image["ged_exact"]))
print("worst image:", report.per_image["id"][worst], round(float(report.per_image["ged_exact"][worst]), 3))

# %% [markdown]
# ## Sets that cover readers
#
# After a calibration on images that were not trained on, `coverage=0.8` keeps as many hypotheses as hold the one
# nearest to a reader's mask in 8 of 10 cases.

# %%
held_out = data.part("validation")
print(run.calibrate(0.8, held_out.images, held_out.masks))
print(len(prediction), "hypotheses,", len(run.predict(case.image, coverage=0.8)), "in the set")

# %% [markdown]
# ## Other methods
#
# `mv.metrics` needs no model: here sixteen samples of the same prediction, as a sampler would give them.

# %%
samples = [one.sample(16) for one in run.predict(test.images)]
print("GED of 16 samples:", round(float(mv.metrics.ged(samples, test.masks).mean()), 3))
print("the same in the limit of many:", round(float(mv.metrics.ged(samples, test.masks, kind="limit").mean()), 3))
print("of the stated probabilities:", round(report.summary["ged_exact"], 3))
assert report.summary["ged_exact"] < 1
folder.cleanup()
