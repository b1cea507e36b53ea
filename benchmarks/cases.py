"""The full list: the shapes of the GPU benchmark on a CPU, batches above 16 divided by 16."""

from __future__ import annotations

from spectralops._cli.cases import burgers, convolution, dense_conv, depthwise_conv, diffusion, layer, low_pass
from spectralops._cli.contest import Case

SLOW_LOOP = "oneDNN falls back to a reference loop: minutes per call; rows of one image show it"
SLOW = {"torch": SLOW_LOOP, "torch w2": SLOW_LOOP}

LAYERS: tuple[Case, ...] = (
    layer(16, 64, (128, 128), 16),
    layer(16, 32, (64, 64), 12),
    layer(8, 64, (256, 256), 32),
    layer(4, 64, (512, 512), 32),
    layer(1, 64, (128, 128), 16),
    layer(16, 128, (128, 128), 32),
    layer(4, 64, (1024,), 64),
    layer(2, 64, (8192,), 16),
    layer(4, 64, (256,), 32),
    layer(64, 64, (128,), 64),
    layer(4, 32, (64, 64, 64), 8),
    layer(2, 32, (128, 128, 128), 12),
)

FILTERS: tuple[Case, ...] = (
    low_pass((4, 512, 512), 2),
    low_pass((32, 128, 128), 2),
    low_pass((8, 2048, 2048), 2),
    low_pass((8192, 8192), 2),
    low_pass((4, 500, 500), 2),
    low_pass((16, 721, 1440), 2),
    low_pass((512, 4096), 1),
    low_pass((2048, 1024), 1),
    low_pass((64, 65536), 1),
    low_pass((256, 256, 256), 3),
    low_pass((8, 128, 128, 128), 3),
)

STEPS: tuple[Case, ...] = (
    diffusion((8192, 8192), 2, 1),
    diffusion((8192, 8192), 2, 16),
    diffusion((4, 512, 512), 2, 1),
    diffusion((4, 512, 512), 2, 16),
    diffusion((512, 512), 2, 256),
    burgers((8192, 8192), 2, 1),
    burgers((8192, 8192), 2, 16),
    burgers((4, 512, 512), 2, 1),
    burgers((4, 512, 512), 2, 16),
    diffusion((512, 512, 512), 3, 1),
    diffusion((512, 512, 512), 3, 4),
)

CONVOLUTIONS: tuple[Case, ...] = (
    dense_conv(16, 64, 224, 3),
    dense_conv(16, 64, 224, 7),
    dense_conv(16, 64, 224, 15, skip=SLOW),
    dense_conv(16, 64, 224, 31, skip=SLOW),
    dense_conv(1, 64, 224, 15),
    depthwise_conv(16, 64, 224, 7),
    depthwise_conv(16, 64, 224, 15),
    depthwise_conv(16, 64, 224, 31, skip=SLOW),
    depthwise_conv(16, 64, 224, 51, skip=SLOW),
    depthwise_conv(1, 64, 224, 31),
    convolution(4096, 15),
    convolution(4096, 63),
    convolution(4096, 255),
)

FULL: tuple[Case, ...] = LAYERS + FILTERS + STEPS + CONVOLUTIONS
