"""From permeability to pressure by a Fourier neural operator, trained with our layers and with plain PyTorch's."""

from __future__ import annotations

import numpy as np
import torch
from _training import arguments, compare, data_file, draw_curves


def generated(count: int, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """-div(a grad u) = 1 with u = 0 outside; a is 12 where a smooth random field is positive, and 3 elsewhere."""
    from scipy.sparse import diags_array
    from scipy.sparse.linalg import spsolve

    import spectralops as so

    noise = np.random.default_rng(seed).standard_normal((count, 32, 32))
    smooth = so.spectral_filter(noise, so.transfer.gaussian(3.0))
    positive = so.fourier_resample(smooth, (n, n)) > 0 if n != 32 else smooth > 0
    solutions = []
    for high in positive:
        a = np.pad(np.where(high, 12.0, 3.0), 1, mode="edge")
        south, west = (2 / (1 / a + 1 / np.roll(a, 1, axis)) for axis in (0, 1))  # means on the faces
        below, above = south[1:-1, 1:-1].ravel(), south[2:, 1:-1].ravel()
        left, right = west[1:-1, 1:-1].copy(), west[1:-1, 2:].copy()
        centre = below + above + left.ravel() + right.ravel()
        left[:, 0] = right[:, -1] = 0
        bands = [centre, -below[n:], -above[:-n], -left.ravel()[1:], -right.ravel()[:-1]]
        matrix = diags_array(bands, offsets=[0, -n, n, -1, 1], format="csc") * (n + 1) ** 2
        solutions.append(spsolve(matrix, np.ones(n * n)).reshape(n, n))
    return positive, np.array(solutions)


options = arguments(__doc__, samples=200, epochs=60)
if (path := data_file("fno_darcy_16_32.nc")) is not None:
    import xarray

    with xarray.open_dataset(path, engine="h5netcdf") as file:
        arrays = [file[name].values for name in ("a_train", "u_train", "a_test32", "u_test32")]
else:
    arrays = [*generated(options.samples + 50, 16, 0), *generated(20, 32, 1)]
a, u, a_fine, u_fine = (torch.from_numpy(np.array(v)).float()[:, None] for v in arrays)
train_set = a[: options.samples], u[: options.samples] / u.std()
tests = {"on the finer grid": (a_fine, u_fine / u.std())}
model, curves = compare((8, 8), train_set, tests, options.epochs, hidden=24)

if options.figure:
    import matplotlib.pyplot as plt

    with torch.no_grad():
        fields = [v[0, 0].numpy() for v in (a_fine, u_fine / u.std(), model(a_fine[:1]))]
    figure, panels = plt.subplots(1, 4, figsize=(13, 3.2), layout="constrained")
    draw_curves(panels[0], curves)
    titles = ("permeability, 32 x 32", "pressure", "predicted after training on 16 x 16")
    for panel, field, title in zip(panels[1:], fields, titles, strict=True):
        limits = {} if panel is panels[1] else {"vmin": 0, "vmax": float(fields[1].max())}
        panel.imshow(field, origin="lower", **limits)
        panel.set(title=title, xticks=[], yticks=[])
    figure.savefig(options.figure, dpi=80)
