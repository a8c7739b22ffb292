"""Tensor types with shapes. Checked by the tests; plain annotations everywhere else.

jaxtyping is a development dependency: without it the annotations below mean "a tensor".
"""

from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int, Shaped, UInt8
else:
    try:
        from jaxtyping import Bool, Float, Int, Shaped, UInt8
    except ImportError:

        class _AnyTensor:
            def __class_getitem__(cls, _item: Any) -> Any:
                return Tensor

        Bool = Float = Int = Shaped = UInt8 = _AnyTensor

__all__ = ["Bool", "Float", "Int", "Shaped", "Tensor", "UInt8"]
