"""A bridge as an ONNX graph over any number of rows."""

from __future__ import annotations

from pathlib import Path

from gramian.bridge.export.layer import Layer
from gramian.bridge.saved import SavedBridge
from gramian.errors import GramianError

NAME = "bridge.onnx"
OPSET, IR = 17, 8
LARGEST = (1 << 31) - (1 << 20)
"""Bytes that one ONNX file holds."""


def write(bridge: SavedBridge, layer: Layer, folder: Path) -> str:
    """Write ``bridge.onnx`` and say how it is used.

    Rows of zeros after the map stay zero.

    Raises
    ------
    GramianError : the package onnx is missing, or the weight is too large for one file.
    """
    try:
        import onnx
        from onnx import TensorProto, helper, numpy_helper
    except ImportError as error:
        raise GramianError("export to onnx needs pip install 'gramian[onnx]'") from error
    before, after = layer.dims
    if layer.weight.nbytes > LARGEST:
        raise GramianError(
            f"a weight of {layer.weight.nbytes:,} bytes is too large for one ONNX file; export to "
            "torch"
        )
    constants = [numpy_helper.from_array(layer.weight.numpy(), "weight")]
    inputs = ["rows", "weight"]
    if layer.bias is not None:
        constants.append(numpy_helper.from_array(layer.bias.numpy(), "bias"))
        inputs.append("bias")
    product = "product" if layer.normalise else "mapped"
    nodes = [helper.make_node("Gemm", inputs, [product], transB=1)]
    if layer.normalise:
        constants.append(helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0]))
        constants.append(helper.make_tensor("zero", TensorProto.FLOAT, [1], [0.0]))
        nodes += [
            helper.make_node("ReduceL2", [product], ["length"], axes=[1], keepdims=1),
            helper.make_node("Equal", ["length", "zero"], ["empty"]),
            helper.make_node("Where", ["empty", "one", "length"], ["divisor"]),
            helper.make_node("Div", [product, "divisor"], ["mapped"]),
        ]
    graph = helper.make_graph(
        nodes,
        "bridge",
        [helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["n", before])],
        [helper.make_tensor_value_info("mapped", TensorProto.FLOAT, ["n", after])],
        constants,
    )
    graph_model = helper.make_model(
        graph,
        producer_name="gramian",
        ir_version=IR,
        opset_imports=[helper.make_opsetid("", OPSET)],
    )
    helper.set_model_props(
        graph_model,
        {
            "direction": bridge.direction,
            "source": bridge.source.name,
            "target": bridge.target.name,
            "method": bridge.method,
        },
    )
    onnx.checker.check_model(graph_model, full_check=True)
    onnx.save_model(graph_model, str(folder / NAME))
    return f"""
```python
import onnxruntime

session = onnxruntime.InferenceSession("{NAME}", providers=["CPUExecutionProvider"])
y = session.run(["mapped"], {{"rows": x}})[0]  # x: (n, {before}) float32, y: (n, {after})
```
"""
