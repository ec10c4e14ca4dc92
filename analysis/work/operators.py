"""The one table of operators whose work follows from their recorded arguments, with formula and source of each.

``SCHEMAS`` is PyTorch's native_functions.yaml, which gives the position of each argument. Figures agree with
TraceLens's published tables and ``torch.utils.flop_counter`` except where docs/roofline.md says why not. Operators that
are not listed, or depend on values that shapes do not contain (paged and variable lengths), have no work.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from .arguments import Call
from .elementwise import (
    concatenation,
    conversion,
    elementwise,
    embedding_backward,
    gathered,
    in_place,
    key_value_store,
    last,
    list_copy,
    lists,
    loss,
    moved,
    normalisation,
    normalisation_backward,
    one_element,
    optimiser,
    pool,
    reduction,
    rms_norm,
    rotary,
    rows_taken,
    rowwise_fp8,
    scan,
    scattered,
    softmax,
)
from .experts import NAMES as EXPERTS
from .formulas import (
    Cost,
    Formula,
    attention,
    contradicted,
    convolution,
    convolution_backward,
    dot,
    experts,
    grouped,
    linear,
    matrices,
    matrix_vector,
    not_of_arguments,
    scaled,
)

SCHEMAS, COUNTER = "native_functions.yaml", "torch.utils.flop_counter"
VLLM, SGLANG, AITER, FLASH = "vLLM _custom_ops.py", "SGLang sgl_kernel", "AITER ops", "flash-attn interface"
FBGEMM = "FBGEMM quantize_ops, permute_pooled_embedding_ops"
CONVERSION = "triton_poi_fused__to_copy"


class WorkEntry(NamedTuple):
    """The formula for an operator's work, in words and as a function, and the source of its argument order.

    The work of a ``composite`` counts only where nothing it calls has any. ``doubt`` says why its bytes may be more.
    """

    formula: str
    work: Formula
    source: str = SCHEMAS
    composite: bool = False
    doubt: str = ""


_MM, _MM_BIAS = "2·B·M·N·K", "2·B·M·N·K + B·M·N"
_LINEAR = "2·M·N·K (+ M·N with a bias)"
_CONV = "2·N·C_out·∏output·(C_in / groups)·∏kernel (+ 1 per output with a bias)"
_ATTENTION, _BACKWARD = "2·B·H·P·(D_qk + D_v)", "2·B·H·P·(3·D_qk + 2·D_v), recomputation counted"
_GATED, _EXPERTS = "5 per output", "2·T·k·(W1·H + H·I): T tokens through k experts each"
_HIT = "which experts were hit is not recorded, and bytes are the weights of as many as one token has"

TABLE: dict[str, WorkEntry] = {
    "aten::mm": WorkEntry(_MM, matrices(0), COUNTER),
    "aten::addmm": WorkEntry(_MM_BIAS, matrices(1, bias=True, out=5), COUNTER),
    "aten::_addmm_activation": WorkEntry(_MM_BIAS, matrices(1, bias=True, out=6)),
    "aten::bmm": WorkEntry(_MM, matrices(0, batched=True), COUNTER),
    "aten::baddbmm": WorkEntry(_MM_BIAS, matrices(1, batched=True, bias=True, out=5), COUNTER),
    "aten::linear": WorkEntry(_LINEAR, linear(), composite=True),
    "aten::mv": WorkEntry("2·M·K", matrix_vector(0)),
    "aten::addmv": WorkEntry("2·M·K + M", matrix_vector(1, bias=True)),
    "aten::dot": WorkEntry("2·K", dot),
    "aten::vdot": WorkEntry("2·K", dot),
    "aten::_scaled_mm": WorkEntry(_MM, scaled(6), COUNTER),
    "aten::_int_mm": WorkEntry(_MM, matrices(0)),
    "aten::_grouped_mm": WorkEntry("2·M·N·K over the rows of all groups", grouped),
    "aiter::gemm_a16w16": WorkEntry(_LINEAR, linear(), AITER),
    "vllm::rocm_unquantized_gemm": WorkEntry(_LINEAR, linear(), VLLM),
    "_C::cutlass_scaled_mm": WorkEntry(_MM, scaled(0, left=1, output=0), VLLM),
    "sgl_kernel::fp8_scaled_mm": WorkEntry(_MM, scaled(4), SGLANG),
    "sgl_kernel::int8_scaled_mm": WorkEntry(_MM, scaled(4), SGLANG),

    "aten::convolution": WorkEntry(_CONV, convolution(3, 4, 5, 8, 2, 6), COUNTER),
    "aten::_convolution": WorkEntry(_CONV, convolution(3, 4, 5, 8, 2, 6), COUNTER, composite=True),
    "aten::cudnn_convolution": WorkEntry(_CONV, convolution(3, 2, 4, 5, None)),
    "aten::cudnn_convolution_backward": WorkEntry("the forward's products once per gradient", not_of_arguments),
    "aten::miopen_convolution": WorkEntry(_CONV, convolution(4, 3, 5, 6, 2)),
    "aten::convolution_backward": WorkEntry("the forward's products once per gradient", convolution_backward, COUNTER),

    "aten::scaled_dot_product_attention": WorkEntry(_ATTENTION, attention(5, mask=3), COUNTER, composite=True),
    "aten::_scaled_dot_product_flash_attention": WorkEntry(_ATTENTION, attention(4), COUNTER),
    "aten::_scaled_dot_product_efficient_attention": WorkEntry(_ATTENTION, attention(6, mask=3), COUNTER),
    "aten::_scaled_dot_product_cudnn_attention": WorkEntry(_ATTENTION, attention(6, mask=3), COUNTER),
    "aten::_scaled_dot_product_fused_attention_overrideable": WorkEntry(_ATTENTION, attention(5, mask=3)),
    "aten::_flash_attention_forward": WorkEntry(_ATTENTION, attention(8, heads_last=True, lengths=3)),
    "flash_attn::_flash_attn_forward": WorkEntry(_ATTENTION, attention(5, heads_last=True, bottom=True), FLASH),
    "aiter::fmha_v3_fwd": WorkEntry(_ATTENTION, attention(5, heads_last=True, bottom=True), AITER),
    "aiter::mha_fwd": WorkEntry(_ATTENTION, attention(5, heads_last=True, bottom=True), AITER),
    "aten::_scaled_dot_product_flash_attention_backward": WorkEntry(
        _BACKWARD, attention(11, 1, backward=True), COUNTER),
    "aten::_scaled_dot_product_efficient_attention_backward": WorkEntry(
        _BACKWARD, attention(11, 1, mask=4, backward=True), COUNTER),
    "aten::_scaled_dot_product_cudnn_attention_backward": WorkEntry(
        _BACKWARD, attention(14, 1, mask=8, backward=True), COUNTER),
    "aten::_flash_attention_backward": WorkEntry(
        _BACKWARD, attention(11, 1, heads_last=True, lengths=6, backward=True)),
    "flash_attn::_flash_attn_backward": WorkEntry(
        _BACKWARD, attention(11, 1, heads_last=True, bottom=True, backward=True), FLASH),

    **dict.fromkeys(
        ("vllm::inplace_fused_experts", "vllm::outplace_fused_experts", "sglang::inplace_fused_experts",
         "sglang::outplace_fused_experts", "aiter::fused_moe_", "vllm::rocm_aiter_fused_moe"),
        WorkEntry(_EXPERTS, experts, VLLM, doubt=_HIT)),

    **dict.fromkeys(EXPERTS, WorkEntry(_EXPERTS, not_of_arguments, "vLLM, triton_kernels and FlashInfer fused_moe",
                                       doubt=_HIT)),

    **dict.fromkeys(("aten::_softmax", "aten::_log_softmax"), WorkEntry("5·n", softmax)),
    **dict.fromkeys(("aten::_softmax_backward_data", "aten::_log_softmax_backward_data"),
                    WorkEntry("4·n", moved(0, 1, 1, flops=4))),
    **dict.fromkeys(
        ("aten::layer_norm", "aten::native_layer_norm", "aten::native_group_norm", "aten::native_batch_norm",
         "aten::_native_batch_norm_legit", "aten::cudnn_batch_norm", "aten::miopen_batch_norm"),
        WorkEntry("5·n", normalisation())),
    **dict.fromkeys(
        ("aten::native_layer_norm_backward", "aten::native_group_norm_backward", "aten::native_batch_norm_backward",
         "aten::cudnn_batch_norm_backward", "aten::miopen_batch_norm_backward"),
        WorkEntry("9·n", normalisation_backward)),
    "aten::_fused_rms_norm": WorkEntry("4·n + 2·rows", rms_norm(0, written=1)),
    "aten::rms_norm": WorkEntry("4·n + 2·rows", rms_norm(0, written=1), composite=True),
    "aiter::rms_norm": WorkEntry("4·n + 2·rows", rms_norm(0, 1, written=1), AITER),
    "aiter::rmsnorm": WorkEntry("4·n + 2·rows", rms_norm(0, 1, 2), AITER),
    "aiter::add_rmsnorm": WorkEntry("5·n + 2·rows", rms_norm(0, 1, 2, 3, 4, flops=5), AITER),
    "aiter::rmsnorm2d_fwd_with_add_ck": WorkEntry("5·n + 2·rows", rms_norm(0, 1, 2, 3, 4, flops=5), AITER),
    **dict.fromkeys(("_C::rms_norm", "sgl_kernel::rmsnorm"), WorkEntry("4·n + 2·rows", rms_norm(0, 1, 2), VLLM)),
    **dict.fromkeys(("_C::fused_add_rms_norm", "sgl_kernel::fused_add_rmsnorm"),
                    WorkEntry("5·n + 2·rows", rms_norm(0, 0, 1, 1, 2, flops=5), VLLM)),
    **dict.fromkeys(
        (f"{home}::{name}_and_mul" for home in ("_C", "sgl_kernel") for name in ("silu", "gelu", "gelu_tanh")),
        WorkEntry(_GATED, moved(0, 1, flops=5), VLLM)),
    **dict.fromkeys(("_C::rotary_embedding", "sgl_kernel::rotary_embedding"), WorkEntry("3·n", rotary, VLLM)),
    "_C_cache_ops::reshape_and_cache_flash": WorkEntry("0", key_value_store, VLLM),
    "sglang::store_cache": WorkEntry("0", key_value_store, SGLANG),
    **dict.fromkeys(
        (f"_C::{name}_scaled_fp8_quant" for name in ("static", "dynamic", "dynamic_per_token")),
        WorkEntry("n", moved(0, 1, 2, flops=1), VLLM)),

    "fbgemm::FloatToFP8RowwiseQuantized": WorkEntry("n", rowwise_fp8(True), FBGEMM),
    "fbgemm::FP8RowwiseQuantizedToFloat": WorkEntry("n", rowwise_fp8(False), FBGEMM),
    "fbgemm::FloatToHFP8Quantized": WorkEntry("n", elementwise(1, 1), FBGEMM),
    "fbgemm::HFP8QuantizedToFloat": WorkEntry("n", elementwise(1, 4), FBGEMM),
    "fbgemm::permute_pooled_embs_auto_grad": WorkEntry("0", moved(0, 0), FBGEMM),
    "torch::autograd::CppNode<fbgemm_gpu::PermutePooledEmbsFunction<&fbgemm_gpu::permute_pooled_embs_gpu> >":
        WorkEntry("0", moved(0, 0), FBGEMM),

    "aten::copy_": WorkEntry("0", moved(0, 1)),
    CONVERSION: WorkEntry("0", conversion, "torch/_inductor/codegen/triton.py"),
    "aten::cat": WorkEntry("0", concatenation),
    "aten::_cat": WorkEntry("0", concatenation),
    "aten::stack": WorkEntry("0", concatenation, composite=True),
    "aten::index_select": WorkEntry("0", rows_taken(2)),
    "aten::embedding": WorkEntry("0", rows_taken(1), composite=True),
    "aten::embedding_dense_backward": WorkEntry("n", embedding_backward),
    "aten::gather": WorkEntry("0", gathered),
    "aten::scatter_": WorkEntry("0", scattered(False)),
    "aten::scatter_add_": WorkEntry("n", scattered(True)),
    "aten::index_add_": WorkEntry("n", scattered(True)),
    "aten::index_copy_": WorkEntry("0", scattered(False)),
    "aten::_local_scalar_dense": WorkEntry("0", one_element),
    "aten::arange": WorkEntry("0", last),
    "aten::nll_loss_forward": WorkEntry("n", loss),
    "aten::nll_loss_backward": WorkEntry("0", moved(1, 2)),
    "aten::max_pool2d_with_indices": WorkEntry("n", pool),
    "aten::max_pool2d_with_indices_backward": WorkEntry("n", moved(0, 1, 7, flops=1)),

    "aten::_foreach_copy_": WorkEntry("0", list_copy),
    "aten::_foreach_zero_": WorkEntry("0", lists(0, flops=0)),
    "aten::_foreach_norm": WorkEntry("n", lists(1, written=0)),
    "aten::_amp_foreach_non_finite_check_and_unscale_": WorkEntry("n", lists(1)),
    "aten::_fused_adam_": WorkEntry("13 per parameter", optimiser(13, 4, 3, state=4)),
    "aten::_fused_adamw_": WorkEntry("14 per parameter", optimiser(14, 4, 3, state=4)),
    "aten::_fused_sgd_": WorkEntry("2 per parameter, 4 with momentum", optimiser(2, 2, 1, state=2)),
    "aten::_fused_adagrad_": WorkEntry("7 per parameter", optimiser(7, 3, 2)),
}

_UNARY = (
    "neg rsqrt sqrt exp exp2 expm1 log log2 log10 log1p abs sgn sign silu gelu relu relu6 sigmoid tanh cos sin tan "
    "acos asin atan sinh cosh clamp clamp_min clamp_max bitwise_not logical_not reciprocal erf erfc erfinv threshold "
    "leaky_relu elu celu selu hardtanh hardsigmoid hardswish mish softplus square floor ceil round trunc frac logit "
    "nan_to_num native_dropout"
)
_BINARY = (
    "add sub rsub mul div divide pow maximum minimum remainder fmod floor_divide atan2 bitwise_and bitwise_or "
    "bitwise_xor masked_fill gelu_backward silu_backward threshold_backward sigmoid_backward tanh_backward "
    "leaky_relu_backward elu_backward hardtanh_backward hardswish_backward hardsigmoid_backward softplus_backward "
    "logit_backward mse_loss native_dropout_backward"
)
_COMPARED = "eq ne lt gt le ge isnan isinf isfinite logical_and logical_or logical_xor"
for _operands, _names, _size in (
    (1, _UNARY, 0), (2, _BINARY, 0), (2, _COMPARED, 1), (3, "where addcmul addcdiv lerp mse_loss_backward", 0)
):
    for _name in _names.split():
        TABLE[f"aten::{_name}"] = WorkEntry("n", elementwise(_operands, _size))
        TABLE[f"aten::{_name}_"] = WorkEntry("n", in_place(_operands))
for _name in "fill zero normal uniform bernoulli random exponential".split():
    TABLE[f"aten::{_name}_"] = WorkEntry("0", moved(0))
for _name in "sum nansum mean prod max min amax amin any all std var logsumexp count_nonzero".split():
    TABLE[f"aten::{_name}"] = WorkEntry("n", reduction())
for _name in "norm linalg_vector_norm linalg_norm".split():
    TABLE[f"aten::{_name}"] = WorkEntry("n", reduction(2), composite=_name == "linalg_norm")
for _name in "argmax argmin".split():
    TABLE[f"aten::{_name}"] = WorkEntry("n", reduction(out=8))
for _name in "cumsum cumprod".split():
    TABLE[f"aten::{_name}"] = WorkEntry("n", scan)
for _names, _read in (("neg sqrt rsqrt abs exp log reciprocal sign round floor ceil sigmoid tanh", 1),
                      ("add sub mul div pow maximum minimum clamp_min clamp_max", 2), ("lerp addcmul addcdiv", 3)):
    for _name in _names.split():
        TABLE[f"aten::_foreach_{_name}"] = TABLE[f"aten::_foreach_{_name}_"] = WorkEntry("n", lists(_read))


@cache
def entry(name: str) -> WorkEntry | None:
    """The entry of an operator; an overload (``aten::add.out``) has that of its base name, and Inductor's numbered
    kernels that only convert share one."""
    numbered = name.startswith(f"{CONVERSION}_") and name[len(CONVERSION) + 1:].isdecimal()
    return TABLE.get(CONVERSION if numbered else name) or TABLE.get(name.partition(".")[0])


def doubt(name: str) -> str:
    """Why calls of an operator may move more than its bytes; '' if no reason is known."""
    formula = entry(name)
    return formula.doubt if formula is not None else ""


def work_of(call: Call) -> Cost | None:
    """The work of a call; None for an operator without an entry. Raises Unknown and Contradiction."""
    formula = entry(call.name)
    return contradicted(formula.work(call)) if formula is not None else None
