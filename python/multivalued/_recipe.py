"""Recipes as dictionaries."""

from __future__ import annotations

import json
from typing import Any

from . import _native

Recipe = dict[str, Any]


def recipes() -> list[str]:
    """The names of the recipes that come with the package.

    >>> "lidc" in recipes()
    True
    """
    return _native.recipe_names()


def recipe(name_or_table: str | Recipe | None = None, **changes: Any) -> Recipe:
    """A whole recipe as a dictionary of tables, checked: every key, defaults included.

    `name_or_table` is a recipe's name, a .toml file or a dictionary of what differs from the defaults. Changes are
    keys with two underscores in place of the dot.

    >>> recipe("shapes-tiny", train__steps=100)["train"]["steps"]
    100
    >>> recipe({"train": {"step": 3}})
    Traceback (most recent call last):
    ...
    ValueError: recipe of this dictionary: ...unknown field `step`...
    """
    sets = [f"{key.replace('__', '.', 1)}={_toml_value(value)}" for key, value in changes.items()]
    if isinstance(name_or_table, dict):
        found = _native.recipe(None, json.dumps(name_or_table), sets)
    else:
        found = _native.recipe(name_or_table, None, sets)
    table: Recipe = json.loads(found)
    return table


def recipe_toml(table: Recipe) -> str:
    """A recipe as the text of a .toml file, as the command line takes it."""
    return _native.recipe_toml(json.dumps(table))


def _toml_value(value: Any) -> str:
    # Numbers, texts, booleans and lists of them are written the same way in JSON and in TOML.
    return json.dumps(value)
