"""Advance Burgers' equation by a Fourier neural operator, trained with our layers and with plain PyTorch's."""

from __future__ import annotations

import numpy as np
import torch
from _training import arguments, compare, data_file, draw_curves


def generated(count: int, seed: int) -> np.ndarray:
    """u_t + u u_x = 0.01 u_xx on a period of 1 from smooth random fields: 16 points at the times 0 and 1."""
    import spectralops as so

    noise = np.random.default_rng(seed).standard_normal((count, 16))
    smooth = so.spectral_filter(noise, so.transfer.gaussian(1.5), axes=-1)
    start = so.fourier_resample(smooth, 128, axes=-1)
    end = so.diffuse_convect_step(start, 1 / 128, 1 / 1024, 0.01, axes=-1, steps=1024)
    return np.stack([start, end], 1)[..., ::8]


options = arguments(__doc__, samples=200, epochs=60)
if (path := data_file("fno_burgers_16.nc")) is not None:
    import xarray

    with xarray.open_dataset(path, engine="h5netcdf") as file:
        runs, unseen = file["train"].values[:, [0, -1]], file["test"].values[:, [0, -1]]
else:
    runs, unseen = generated(options.samples, 0), generated(50, 1)
runs, unseen = (torch.from_numpy(v).float() for v in (runs[: options.samples], unseen))
sets = [(v[:, :1], v[:, 1:]) for v in (runs, unseen)]
model, curves = compare(10, sets[0], {"of unseen runs": sets[1]}, options.epochs, hidden=32)

if options.figure:
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    draw_curves(panels[0], curves)
    with torch.no_grad():
        predicted = model(sets[1][0][:3])[:, 0]
    x = np.arange(16) / 16
    for j, colour in enumerate(("tab:blue", "tab:orange", "tab:green")):
        panels[1].plot(x, unseen[j, 0], ":", color=colour, label="start" if j == 0 else None)
        panels[1].plot(x, unseen[j, 1], color=colour, label="end" if j == 0 else None)
        panels[1].plot(x, predicted[j], "o", color=colour, label="predicted" if j == 0 else None)
    panels[1].set(xlabel="x", title="three unseen runs")
    panels[1].legend()
    figure.savefig(options.figure, dpi=80)
