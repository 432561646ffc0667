"""Each library behind the same three names: an engine is made for a case, best_seconds() runs it, output() shows what
it computed, as f32 [batch, heads, q_len, head_dim]. Arrays are laid out beforehand as the library likes them; making,
compiling and the first runs are not timed."""

import os
import subprocess
import time
from pathlib import Path

import jax
import ml_dtypes
import numpy
import onnxruntime
import openvino
import torch
from onnx import TensorProto, helper
from openvino import opset13
from safetensors.torch import save_file
from torch.nn.attention import flex_attention

from cases import WINDOW

DRIVER = Path(__file__).resolve().parents[2] / "build/peers/bench/attention_turns"


def to_numpy(tensor):
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


class Driver:
    """Our process, which lives beside this one; see bench/micro/attention_turns.cc."""

    def __init__(self, folder, program=DRIVER):
        self.folder = Path(folder)
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().strip()
        if not answer or answer.startswith("error"):
            raise RuntimeError(f"attention_turns: {answer or 'it ended'}")
        return answer

    def number(self, *words):
        return float(self.ask(*words))


class Ours:
    name = "qkv"

    def __init__(self, driver, arrays, threads):
        self.driver = driver
        file = driver.folder / "case.safetensors"
        tensors = {"query": arrays.query, "key": arrays.key, "value": arrays.value}
        hidden = {"lengths": arrays.lengths, "window": arrays.window, "documents": arrays.documents}
        hidden = {name: x for name, x in hidden.items() if x is not None}
        if not hidden and arrays.visible is not None:
            hidden["visible"] = arrays.visible
        tensors.update(hidden)
        if arrays.grad_out is not None:
            tensors["grad_out"] = arrays.grad_out
        save_file(tensors, file)
        case = arrays.case
        self.passes = case.passes
        driver.ask("case", file, threads, int(case.causal), case.dropout, int(case.reduced))

    def best_seconds(self, seconds):
        return self.driver.number("run", seconds, self.passes)

    def read_seconds(self, seconds):
        return self.driver.number("sum", seconds)

    def output(self):
        self.best_seconds(0)
        file = self.driver.folder / "output.npy"
        self.driver.ask("save", file)
        return numpy.load(file)


class Peer:
    """A library of this process: what it adds is run()."""

    threads = 1

    def best_seconds(self, seconds):
        """As in attention_turns.cc: on one thread the processor's time counts where it is less than the wall's."""
        best = float("inf")
        begin = end = time.perf_counter()
        while end - begin < seconds or best == float("inf"):
            wall, processor = time.perf_counter(), time.process_time()
            self.run()
            spent, end = time.process_time() - processor, time.perf_counter()
            best = min(best, spent if self.threads == 1 else end - wall, end - wall)
        return best


class Torch(Peer):
    name = "torch"
    package = "torch"

    def __init__(self, arrays, threads):
        case = arrays.case
        self.threads = threads
        torch.set_num_threads(threads)
        self.arguments = (arrays.query, arrays.key, arrays.value)
        self.options = {
            "attn_mask": arrays.visible,
            "is_causal": case.causal,
            "enable_gqa": case.heads != case.kv_heads,
            "dropout_p": case.dropout,
        }
        self.passes = case.passes
        self.grad_out = arrays.grad_out
        if self.passes != "forward":
            self.arguments = tuple(x.clone().requires_grad_() for x in self.arguments)
        if self.passes == "backward":
            self.result = self.forward()

    def forward(self):
        return torch.nn.functional.scaled_dot_product_attention(*self.arguments, **self.options)

    def run(self):
        if self.passes == "forward":
            with torch.inference_mode():
                self.result = self.forward()
            return
        if self.passes == "both":
            self.result = self.forward()
        self.gradients = torch.autograd.grad(self.result, self.arguments, self.grad_out, retain_graph=True)

    def output(self):
        self.run()
        return (self.result if self.passes == "forward" else self.gradients[0]).float().numpy()


class FlexAttention(Torch):
    """torch's own for masks, compiled; its mask is laid out beforehand in blocks."""

    name = "FlexAttention"

    def __init__(self, arrays, threads):
        super().__init__(arrays, threads)
        case = arrays.case
        lengths, documents, visible = arrays.lengths, arrays.documents, arrays.visible
        masks = {
            "lengths": lambda b, h, q, k: k < lengths[b],
            "scattered": lambda b, h, q, k: visible[b, 0, 0, k],
            "window": lambda b, h, q, k: (q >= k) & (q - k <= WINDOW),
            "documents": lambda b, h, q, k: documents[q] == documents[k],
        }
        self.mask = flex_attention.create_block_mask(
            masks[case.hidden], case.batch, None, case.q_len, case.k_len, device="cpu"
        )
        torch.compiler.reset()
        self.attention = torch.compile(flex_attention.flex_attention, fullgraph=True, dynamic=False)

    def forward(self):
        return self.attention(*self.arguments, block_mask=self.mask)


class OnnxRuntime(Peer):
    name = "ONNX Runtime"
    package = "onnxruntime"

    def __init__(self, arrays, threads):
        case = arrays.case
        self.threads = threads
        inputs = {"query": arrays.query, "key": arrays.key, "value": arrays.value}
        if arrays.visible is not None:  # it asks for the mask's rows in full
            inputs["visible"] = arrays.visible.expand(-1, 1, case.q_len, -1).contiguous()
        types = {
            torch.float32: TensorProto.FLOAT,
            torch.float16: TensorProto.FLOAT16,
            torch.bfloat16: TensorProto.BFLOAT16,
            torch.bool: TensorProto.BOOL,
        }
        infos = [helper.make_tensor_value_info(name, types[x.dtype], x.shape) for name, x in inputs.items()]
        result = helper.make_tensor_value_info("output", types[arrays.query.dtype], arrays.query.shape)
        node = helper.make_node("Attention", list(inputs), ["output"], is_causal=int(case.causal))
        graph = helper.make_graph([node], "attention", infos, [result])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 4
        self.session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        self.binding = self.session.io_binding()
        for name, x in inputs.items():
            self.binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(to_numpy(x)))
        dtype = to_numpy(arrays.query).dtype
        self.result = onnxruntime.OrtValue.ortvalue_from_shape_and_type(arrays.query.shape, dtype)
        self.binding.bind_ortvalue_output("output", self.result)

    def run(self):
        self.session.run_with_iobinding(self.binding)

    def output(self):
        self.run()
        return self.result.numpy().astype(numpy.float32)


class OpenVino(Peer):
    name = "OpenVINO"
    package = "openvino"

    def __init__(self, arrays, threads):
        case = arrays.case
        self.threads = threads
        self.shape = tuple(arrays.query.shape)
        query = arrays.query
        if case.heads != case.kv_heads:
            # It knows no grouped heads. The heads of a group as one head's queries are the same computation as long as
            # every query sees every key.
            if case.causal:
                raise NotImplementedError("no grouped heads with a causal mask")
            query = query.reshape(case.batch, case.kv_heads, -1, case.head_dim)
        inputs = [query, arrays.key, arrays.value]
        if arrays.visible is not None:
            inputs.append(arrays.visible)
        types = {
            torch.float32: openvino.Type.f32,
            torch.float16: openvino.Type.f16,
            torch.bfloat16: openvino.Type.bf16,
            torch.bool: openvino.Type.boolean,
        }
        parameters = [opset13.parameter(openvino.PartialShape(list(x.shape)), types[x.dtype]) for x in inputs]
        attention = opset13.scaled_dot_product_attention(*parameters, causal=case.causal)
        options = {
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            # With the hint f16 it multiplies in bf16 on processors that know bf16 but not f16: another computation.
            "INFERENCE_PRECISION_HINT": "bf16" if case.dtype == "bf16" else "f32",
        }
        model = openvino.Model([attention], parameters, "attention")
        self.request = openvino.Core().compile_model(model, "CPU", options).create_infer_request()
        # The request borrows these. NumPy knows no bf16: its bits travel as integers.
        self.kept = [(x.view(torch.int16) if x.dtype == torch.bfloat16 else x).numpy() for x in inputs]
        for i, (array, x) in enumerate(zip(self.kept, inputs)):
            self.request.set_input_tensor(i, openvino.Tensor(array, list(x.shape), types[x.dtype]))

    def run(self):
        self.request.infer()

    def output(self):
        self.run()
        result = self.request.get_output_tensor()
        data = result.data.view(ml_dtypes.bfloat16) if result.element_type == openvino.Type.bf16 else result.data
        return data.astype(numpy.float32).reshape(self.shape)


class Jax(Peer):
    """Its threads are the processors that the process may use."""

    name = "JAX"
    package = "jax"

    def __init__(self, arrays, threads):
        assert len(os.sched_getaffinity(0)) == threads
        self.threads = threads
        case = arrays.case
        layout = [x.transpose(1, 2).contiguous() for x in (arrays.query, arrays.key, arrays.value)]
        self.arguments = [jax.device_put(to_numpy(x)) for x in layout]
        masks = {}
        if arrays.lengths is not None:
            masks["key_value_seq_lengths"] = jax.device_put(arrays.lengths.numpy().astype(numpy.int32))
        elif arrays.visible is not None:
            masks["mask"] = jax.device_put(arrays.visible.numpy())
        self.masks = masks
        self.attention = jax.jit(
            lambda q, k, v, masks: jax.nn.dot_product_attention(q, k, v, is_causal=case.causal, **masks)
        )

    def run(self):
        self.result = self.attention(*self.arguments, self.masks)
        self.result.block_until_ready()

    def output(self):
        self.run()
        return numpy.asarray(self.result).astype(numpy.float32).transpose(0, 2, 1, 3)


PEERS = (Torch, FlexAttention, OnnxRuntime, OpenVino, Jax)


def peers_of(case):
    """Who takes part: the others are made for inference, and FlexAttention for masks."""
    if case.passes != "forward":
        return (Torch,)
    return tuple(peer for peer in PEERS if peer is not FlexAttention or case.section == "masks")
