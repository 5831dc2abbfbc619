"""An author's file: a kernel that never ends."""

import numpy as np

from validation.check import Launch, Output, OwnKernel, Roundings, Size, Values

endless = OwnKernel(
    name="endless",
    source="endless.cu",
    block=32,
    sizes={"n": Size(1, 64)},
    inputs={"x": Values("float32", ("n",))},
    outputs={"y": Output("float32", ("n",))},
    launch=lambda sizes: Launch((2, 1, 1), ("x", "y", np.int32(sizes["n"]))),
    reference=lambda inputs, sizes: inputs["x"],
    bound=Roundings(1),
)
