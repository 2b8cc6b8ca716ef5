"""What an installed wheel must be able to do, without pytest, a compiler or the repository.

`make wheel-test` runs it in an environment that has nothing but the wheel and what it depends on.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import bpfa
from bpfa.backends.cpu import _groups, _kernels


def main() -> None:
    """Fit and use a model, restore a picture, and run the program."""
    assert "site-packages" in bpfa.__file__, bpfa.__file__
    X = bpfa.draw_data(300, 6, 3, g_o=100.0, g_w=1.0, seed=0).y
    X[::5, 1] = np.nan
    model = bpfa.BPFA(n_components=6, max_steps=50, random_state=0).fit(X)
    filled, std = model.impute(X, return_std=True)
    assert np.isfinite(filled).all()
    assert (std[::5, 1] > 0).all()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.bpfa"
        model.save(path)
        again = bpfa.BPFA.load(path)
    assert (again.transform(X) == model.transform(X)).all()
    picture = np.add.outer(np.arange(20.0), np.arange(16.0))
    missing = np.random.default_rng(0).random(picture.shape) < 0.3
    restored = bpfa.inpaint(picture, missing, patch_size=4, n_components=8, max_steps=60, random_state=0)
    assert np.abs(restored.image - picture).max() < 2
    # Without the extra `cli`, the program says what to install.
    program = subprocess.run(
        [sys.executable, "-m", "bpfa.cli", "doctor"], capture_output=True, text=True, check=False
    )
    assert "pip install 'bpfa[cli]'" in program.stderr, program.stderr
    kernels = ", ".join(Path(module.__file__).name for module in (_kernels, _groups))
    print(f"bpfa {bpfa.__version__} works on Python {sys.version.split()[0]} ({kernels})")


if __name__ == "__main__":
    main()
