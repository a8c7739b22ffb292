"""The same numbers, faster: fused kernels and folded weights. Each names the plain form that it equals."""
