"""A `quantised.Plan` for onnxruntime: written as an ONNX model, and run.

ONNX is a protocol buffer of nodes and constants, and of its hundred messages a handful is needed here. They are written by
hand, in forty lines, because the `onnx` package weighs 30 MB and would do nothing else for us. Field numbers are those of
onnx.proto, which never change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.ranker.quantised import ByteBlock, ByteConv, Conv, Plan, Scale

__all__ = ["OnnxEngine", "onnx_bytes"]

_OPSET, _IR = 17, 8
_TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7}  # TensorProto.DataType
_PIECE = 1  # picture at a time: its maps stay in the processor's cache; four take a tenth longer


class OnnxEngine:
    """A plan computed by onnxruntime on the CPU."""

    def __init__(self, plan: Plan, threads: int) -> None:
        import onnxruntime

        onnxruntime.disable_telemetry_events()  # only Windows builds have any
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = 3
        # Threads that wait for work by spinning take the core from everybody else on the machine.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = onnxruntime.InferenceSession(
            onnx_bytes(plan), options, providers=["CPUExecutionProvider"]
        )

    def averages(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Of every block over positions and views, for pictures (B, side, side, 3); shape (B, D)."""
        return np.concatenate([self._piece(images[at : at + _PIECE]) for at in range(0, len(images), _PIECE)])

    def _piece(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        parts = self._session.run(None, {"pictures": np.ascontiguousarray(images)})
        # Early blocks, then late ones: (views · B, channels), view by view.
        return np.concatenate(
            [np.asarray(part.reshape(-1, len(images), part.shape[1]).mean(axis=0)) for part in parts], axis=1
        )


def onnx_bytes(plan: Plan) -> bytes:
    """The model: `pictures` as uint8 (B, side, side, 3) in, averages of blocks as float32 out, as `early` and `late`."""
    graph = _Graph()
    x = graph.node("Cast", "pictures", to=_TYPES["float32"])
    x = graph.node("Sub", x, graph.constant(np.array(127, dtype=np.float32)))
    x = graph.node("Mul", x, graph.constant(np.array(1 / 128, dtype=np.float32)))
    x = graph.node("Transpose", x, perm=[0, 3, 1, 2])
    if plan.flips:
        x = _and_mirrored(graph, x, axis=3)
    x = _conv(graph, plan.stem, x)
    seen: list[str] = []
    for block in plan.early:
        y = x
        for conv in block.convs:
            y = _conv(graph, conv, y)
        x = graph.node("Add", x, y) if block.adds else y
        seen.append(graph.node("GlobalAveragePool", x))
    graph.output("early", seen)
    x = graph.node("QuantizeLinear", x, *_scale(graph, plan.maps))
    if plan.flips:
        x = _and_mirrored(graph, x, axis=2)
    seen = []
    for late in plan.late:
        x = _late(graph, late, x)
        real = graph.node("DequantizeLinear", x, *_scale(graph, late.made))
        seen.append(graph.node("GlobalAveragePool", real))
    graph.output("late", seen)
    return graph.model()


def _late(graph: _Graph, block: ByteBlock, x: str) -> str:
    y = x
    for conv in block.convs:
        zeros = graph.constant(np.zeros(len(conv.bias), dtype=np.int8))
        weights = (graph.constant(conv.weights), graph.constant(conv.steps), zeros)
        y = graph.node(
            "QLinearConv", y, *_scale(graph, conv.given), *weights, *_scale(graph, conv.made), graph.constant(conv.bias),
            **_shape(conv),
        )  # fmt: skip
    if block.sum is None:
        return y
    scales = [_scale(graph, scale) for scale in (block.convs[-1].made, block.convs[0].given, block.sum)]
    return graph.node("QLinearAdd", y, *scales[0], x, *scales[1], *scales[2], domain="com.microsoft")


def _conv(graph: _Graph, conv: Conv, x: str) -> str:
    y = graph.node("Conv", x, graph.constant(conv.weights), graph.constant(conv.bias), **_shape(conv))
    if not conv.relu:
        return y
    ends = (graph.constant(np.array(end, dtype=np.float32)) for end in (0, 6))
    return graph.node("Clip", y, *ends)


def _shape(conv: Conv | ByteConv) -> dict[str, Any]:
    kernel = [int(side) for side in conv.weights.shape[2:]]
    return {
        "kernel_shape": kernel,
        "strides": [conv.stride] * 2,
        "pads": list(conv.pads),
        "group": conv.groups,
    }


def _and_mirrored(graph: _Graph, x: str, axis: int) -> str:
    """As it is, and behind that mirrored: along the height (2) or the width (3)."""
    start, end, along, step = (
        graph.constant(np.array([k], dtype=np.int64)) for k in (-1, -(2**31), axis, -1)
    )
    return graph.node("Concat", x, graph.node("Slice", x, start, end, along, step), axis=0)


def _scale(graph: _Graph, scale: Scale) -> tuple[str, str]:
    return graph.constant(np.array(scale.step)), graph.constant(np.array(scale.zero, dtype=np.uint8))


class _Graph:
    """Nodes and constants, each by a name of its own."""

    def __init__(self) -> None:
        self._nodes: list[bytes] = []
        self._constants: list[bytes] = []
        self._outputs: list[bytes] = []

    def constant(self, values: NDArray[Any]) -> str:
        name = f"c{len(self._constants)}"
        kind = _TYPES[values.dtype.name]
        raw = np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<")).tobytes()
        self._constants.append(
            _field(1, _packed(values.shape)) + _field(2, kind) + _field(8, name) + _field(9, raw)
        )
        return name

    def node(self, operator: str, *inputs: str, domain: str = "", name: str = "", **attributes: Any) -> str:
        made = name or f"t{len(self._nodes)}"
        parts = [*(_field(1, given) for given in inputs), _field(2, made), _field(4, operator)]
        parts += [_field(5, _attribute(key, value)) for key, value in attributes.items()]
        parts.append(_field(7, domain))
        self._nodes.append(b"".join(parts))
        return made

    def output(self, name: str, averages: Sequence[str]) -> None:
        """Averages (B, C, 1, 1) beside each other, as a result of the model (B, C)."""
        self.node("Flatten", self.node("Concat", *averages, axis=1), name=name, axis=1)
        self._outputs.append(_field(1, name) + _field(2, _field(1, _field(1, _TYPES["float32"]))))

    def model(self) -> bytes:
        # A picture's sides need no saying.
        pictures = _field(1, "pictures") + _field(2, _field(1, _field(1, _TYPES["uint8"])))
        graph = b"".join(
            [
                *(_field(1, node) for node in self._nodes), _field(2, "features"),
                *(_field(5, constant) for constant in self._constants), _field(11, pictures),
                *(_field(12, output) for output in self._outputs),
            ]
        )  # fmt: skip
        sets = [
            _field(1, domain) + _field(2, version) for domain, version in (("", _OPSET), ("com.microsoft", 1))
        ]
        return _field(1, _IR) + _field(7, graph) + b"".join(_field(8, one) for one in sets)


def _attribute(name: str, value: int | list[int]) -> bytes:
    if isinstance(value, int):
        return _field(1, name) + _field(3, value) + _field(20, 2)  # AttributeProto.INT
    return _field(1, name) + b"".join(_field(8, number) for number in value) + _field(20, 7)  # INTS


def _field(number: int, value: int | str | bytes) -> bytes:
    """A field of a protocol buffer: a whole number, or bytes with their length before them."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _packed(numbers: Iterable[int]) -> bytes:
    return b"".join(map(_varint, numbers))


def _varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])
