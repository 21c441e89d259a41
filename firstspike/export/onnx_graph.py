"""A small writer of ONNX graphs: operators by name, constants by value."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from firstspike.errors import FirstspikeError
from firstspike.export.needs import need

if TYPE_CHECKING:
    import onnx

OPSET = 17
"""ONNX 1.12 of 2022 and all since."""

IR_VERSION = 8
"""The file format of that ONNX, which its runtimes read."""

MOST_BYTES = 2**31 - 2**20
"""What a protobuf message may hold."""

Shape = Sequence[int | str]


class Graph:
    """ONNX nodes in the order they are asked for."""

    def __init__(self) -> None:
        self.onnx = need("onnx", "onnx")
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def input(self, name: str, kind: str, shape: Shape) -> str:
        self.inputs.append(self._value(name, kind, shape))
        return name

    def output(self, value: str, name: str, kind: str, shape: Shape) -> None:
        """Hand out a value under a name."""
        self.nodes.append(self.onnx.helper.make_node("Identity", [value], [name]))
        self.outputs.append(self._value(name, kind, shape))

    def constant(self, name: str, values: Any, dtype: type) -> str:
        """A constant; the same name twice is the same constant."""
        tensor = self.onnx.numpy_helper.from_array(np.asarray(values, dtype), name)
        self.constants.setdefault(name, tensor)
        return name

    def __call__(self, operator: str, *values: str, **attributes: Any) -> str:
        """The value that an operator makes of others."""
        return self.many(operator, 1, *values, **attributes)[0]

    def many(self, operator: str, count: int, *values: str, **attributes: Any) -> list[str]:
        """The `count` values that an operator makes of others."""
        names = [f"{operator}_{len(self.nodes)}_{number}" for number in range(count)]
        self.nodes.append(self.onnx.helper.make_node(operator, values, names, **attributes))
        return names

    def cast(self, value: str, kind: str) -> str:
        return self("Cast", value, to=getattr(self.onnx.TensorProto, kind))

    def model(self, name: str, about: dict[str, Any], description: str) -> "onnx.ModelProto":
        """The checked model, with `about` as its metadata."""
        from firstspike import __version__

        helper = self.onnx.helper
        constants = list(self.constants.values())
        if sum(constant.ByteSize() for constant in constants) > MOST_BYTES:
            raise FirstspikeError(
                "This network is over 2 GB, more than an ONNX file holds: export to safetensors."
            )
        graph = helper.make_graph(self.nodes, name, self.inputs, self.outputs, constants, description)
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="firstspike",
            producer_version=__version__,
        )
        helper.set_model_props(model, {key: str(value) for key, value in about.items()})
        self.onnx.checker.check_model(model, full_check=True)
        return model

    def _value(self, name: str, kind: str, shape: Shape) -> Any:
        kind = getattr(self.onnx.TensorProto, kind)
        return self.onnx.helper.make_tensor_value_info(name, kind, list(shape))
