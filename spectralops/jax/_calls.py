"""Plans as JAX operations: a callback fills JAX's buffers, at a call or wherever compiled code runs.

Under ``vmap`` a batch of fields is one call where the operator takes one, since leading axes are batches to it;
otherwise each member of the batch is a call of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import jax
import numpy as np

from spectralops._arrays import ArraySpec

try:
    from jax.experimental.buffer_callback import buffer_callback
except ImportError:  # older than JAX 0.6: results pass through host memory, and so do fields on a device
    buffer_callback = None

__all__ = ["Job", "run", "spec_of"]

SEPARATE, LEADING, FIRST = range(3)


@dataclass(frozen=True)
class Job:
    """A plan that is made when the device is known, and what it makes of arrays.

    Attributes
    ----------
    build : callable
        ``build(specs, device, *options)`` is the plan; a function of a module, so that it compares.
    specs : tuple of ArraySpec
        Of the arrays.
    options : tuple
        What else the builder takes.
    out : ArraySpec
    fold : int
        How a batch of first arrays is run: each by itself, with one more leading axis, or along the first axis.
    names : tuple of str
        Of the arrays, where the plan takes some of them by name; otherwise it takes the first ones.
    """

    build: Callable[..., Any]
    specs: tuple[ArraySpec, ...]
    options: tuple[Any, ...]
    out: ArraySpec
    fold: int = SEPARATE
    names: tuple[str, ...] = ()


@lru_cache(maxsize=1024)
def _plan(job: Job, device: str, members: int) -> Any:
    """The plan for so many fields at once."""
    first, *others = job.specs
    if members > 1:
        first = ArraySpec(_folded(job, first.shape, members), first.dtype)
    return job.build((first, *others), device, *job.options)


def _folded(job: Job, shape: tuple[int, ...], members: int) -> tuple[int, ...]:
    return (members, *shape) if job.fold == LEADING else (members * shape[0], *shape[1:])


def spec_of(x: Any) -> ArraySpec:
    """Shape and dtype of an array or tracer as the plans write them."""
    return ArraySpec(tuple(x.shape), np.dtype(x.dtype).name)


def run(job: Job, *arrays: Any) -> Any:
    """The result of a job, which JAX cannot differentiate; what cannot be planned is refused here."""
    _plan(job, "cpu", 1)
    return _compiled(job, *arrays)


@partial(jax.jit, static_argnums=0)
def _compiled(job: Job, *arrays: Any) -> Any:
    result = jax.ShapeDtypeStruct(job.out.shape, job.out.dtype)
    if buffer_callback is None:
        return jax.pure_callback(_host_callback(job), result, *arrays, vmap_method="expand_dims")
    return buffer_callback(_buffer_callback(job), result, vmap_method="expand_dims")(*arrays)


@lru_cache(maxsize=1024)
def _buffer_callback(job: Job) -> Callable[..., None]:
    def callback(context: Any, out: Any, *buffers: Any) -> None:
        if hasattr(out, "__array__") and out.__dlpack_device__()[0] == 1:  # kDLCPU in the DLPack specification
            _fill(job, np.asarray(out), [np.asarray(buffer) for buffer in buffers], "cpu")
            return
        import cupy

        with cupy.cuda.Device(out.__dlpack_device__()[1]), cupy.cuda.Stream.from_external(_Stream(context.stream)):
            _fill(job, _on_device(out), [_on_device(buffer) for buffer in buffers], "cuda")

    return callback


@lru_cache(maxsize=1024)
def _host_callback(job: Job) -> Callable[..., Any]:
    def callback(*arrays: Any) -> Any:
        native = [np.asarray(x) for x in arrays]
        leads = [x.shape[: x.ndim - len(spec.shape)] for x, spec in zip(native, job.specs, strict=True)]
        out = np.empty((*np.broadcast_shapes(*leads), *job.out.shape), job.out.dtype)
        _fill(job, out, native, "cpu")
        return out

    return callback


class _Stream:
    """A stream by its handle, as CuPy takes those of other libraries."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


def _on_device(buffer: Any) -> Any:
    """CuPy array over a buffer, in whose stream all of this happens anyway."""
    import cupy

    described = buffer.__cuda_array_interface__
    address, _ = described["data"]
    shape, kind = tuple(described["shape"]), np.dtype(buffer.dtype)
    memory = cupy.cuda.UnownedMemory(address, math.prod(shape) * kind.itemsize, buffer, cupy.cuda.runtime.getDevice())
    return cupy.ndarray(shape, kind, cupy.cuda.MemoryPointer(memory, 0))


def _fill(job: Job, out: Any, arrays: list[Any], device: str) -> None:
    """Write the results. Arrays may have more leading axes; along those of length 1 they are all the same."""
    if not out.size:
        return
    lead = out.shape[: out.ndim - len(job.out.shape)]
    first, *others = arrays
    own = [x.shape[: x.ndim - len(spec.shape)] for x, spec in zip(arrays, job.specs, strict=True)]
    if not lead:
        _one(job, 1, out, arrays, device)
    elif job.fold != SEPARATE and own[0] == lead and all(math.prod(each) == 1 for each in own[1:]):
        members = math.prod(lead)
        rest = [x.reshape(spec.shape) for x, spec in zip(others, job.specs[1:], strict=True)]
        if members == 1:
            _one(job, 1, out.reshape(job.out.shape), [first.reshape(job.specs[0].shape), *rest], device)
            return
        fields = first.reshape(_folded(job, job.specs[0].shape, members))
        _one(job, members, out.reshape(_folded(job, job.out.shape, members)), [fields, *rest], device)
    else:
        for index in np.ndindex(*lead):
            members_of = [
                x[tuple(i if n > 1 else 0 for i, n in zip(index, each, strict=True))]
                for x, each in zip(arrays, own, strict=True)
            ]
            _one(job, 1, out[index], members_of, device)


def _one(job: Job, members: int, out: Any, arrays: list[Any], device: str) -> None:
    plan = _plan(job, device, members)
    if job.names:
        arrays = [arrays[job.names.index(operand.name)] for operand in plan.operands]
    plan(*arrays[: len(plan.operands)], out=out)
