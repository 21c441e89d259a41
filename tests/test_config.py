"""Dataclasses to JSON and back, strictly."""

import json
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from firstspike.config import from_dict, to_dict
from firstspike.errors import FirstspikeError
from firstspike.functional import Surrogate
from firstspike.models import NetworkConfig
from firstspike.nn import Neuron, Normalisation


@dataclass(frozen=True)
class Inner:
    rate: float = 0.5
    kind: Literal["one", "two"] = "one"


@dataclass(frozen=True)
class Outer:
    name: str
    sizes: tuple[int, ...] = (1,)
    pair: tuple[int, str] = (1, "a")
    count: int | None = None
    either: int | str = 0
    flag: bool = False
    inner: Inner = field(default_factory=Inner)
    maybe: Inner | None = None


@pytest.mark.parametrize(
    "config",
    [
        Outer("plain"),
        Outer("full", (3, 4), (2, "b"), 5, "six", True, Inner(2.0, "two"), Inner(1.0)),
        NetworkConfig(
            "SCNN5",
            (1, 28, 28),
            T=5,
            neuron=Neuron(tau=2.0, surrogate=Surrogate("triangle", 3.0)),
            normalisation=Normalisation(kind="batch", variance=0.3),
            input_mean=(0.25,),
        ),
    ],
)
def test_a_configuration_survives_json(config: Any) -> None:
    assert from_dict(type(config), json.loads(json.dumps(to_dict(config)))) == config


def test_missing_fields_take_their_defaults_and_whole_numbers_become_floats() -> None:
    outer = from_dict(Outer, {"name": "x", "inner": {"rate": 2}})
    assert outer == Outer("x", inner=Inner(2.0))
    assert type(outer.inner.rate) is float


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"name": "x", "szes": [1]}, r"Unknown field 'szes': did you mean sizes\?"),
        ({"name": "x", "inner": {"rte": 1}}, r"Unknown field 'inner\.rte': did you mean rate\?"),
        ({"name": "x", "inner": {"zzz": 1}}, r"Unknown field 'inner\.zzz': did you mean rate or kind\?"),
        ({}, r"'name' is missing"),
        ({"name": 3}, r"name is 3, but should be str"),
        ({"name": "x", "sizes": [1, "2"]}, r"sizes\[1\] is '2', but should be int"),
        ({"name": "x", "sizes": 4}, r"sizes is 4, but should be tuple"),
        ({"name": "x", "pair": [1, "a", 2]}, r"pair is \[1, 'a', 2\], but should be tuple"),
        ({"name": "x", "count": 1.5}, r"count is 1\.5, but should be int"),
        ({"name": "x", "count": True}, r"count is True, but should be int"),
        ({"name": "x", "flag": 1}, r"flag is 1, but should be bool"),
        ({"name": "x", "inner": {"rate": True}}, r"inner\.rate is True, but should be float"),
        ({"name": "x", "inner": {"rate": "fast"}}, r"inner\.rate is 'fast', but should be float"),
        ({"name": "x", "inner": {"kind": "three"}}, r"inner\.kind is 'three': choose one of one, two"),
        ({"name": "x", "inner": {"kind": ["one"]}}, r"inner\.kind is \['one'\]: choose one of one, two"),
        ({"name": "x", "inner": 3}, r"Expected a table of fields for inner, found 3"),
        ({"name": None}, r"name is None, but should be str"),
        ([1], r"Expected a table of fields for Outer, found \[1\]"),
    ],
)
def test_a_field_that_is_wrong_is_refused_by_its_name(values: Any, message: str) -> None:
    with pytest.raises(FirstspikeError, match=message):
        from_dict(Outer, values)


def test_what_the_dataclass_itself_refuses_is_refused() -> None:
    with pytest.raises(FirstspikeError, match="tau must be at least 1"):
        from_dict(Neuron, {"tau": 0.5})
