/// \file
/// What a query gets that sees no key.
#pragma once

namespace qkv {

/// zero  output 0 and weights 0: nothing was found.
/// nan   output and weights NaN, as softmax gives them in torch.nn.MultiheadAttention where weights are asked for. A
/// row
///       counts as empty if its log-sum-exp is -infinity. Derivatives are refused.
enum class EmptyRows { zero, nan };

}  // namespace qkv
