"""Write results of golden cases anew, after a change that was meant to change them.

    python tests/golden/regenerate.py "fit defaults" "partial fit"    # these cases
    python tests/golden/regenerate.py --all                           # every case

The predictions of the stored models are written anew, too; the model files themselves stay as they were saved
by the earlier tree. Say in the message of the commit which change of the mathematics is behind it.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from bpfa import BPFA


def main() -> None:
    here = Path(__file__).parent
    sys.path += [str(here), str(here.parent / "support")]
    from test_golden import GOLDEN, MODELS, cases, fingerprint, summary, table

    warnings.simplefilter("ignore")
    every = dict(cases("dropout", "weight_precision"))
    names = list(every) if "--all" in sys.argv else sys.argv[1:]
    if unknown := [name for name in names if name not in every]:
        raise SystemExit(f"{unknown}: no such cases; expected some of {list(every)}")
    if names and GOLDEN["fingerprint"] != fingerprint() and len(names) < len(every):
        raise SystemExit("the other results are of another machine; expected --all")
    for name in names:
        GOLDEN["results"][name] = {key: summary(value) for key, value in every[name]().items()}
    GOLDEN["fingerprint"] = fingerprint()
    lines = [f"{json.dumps(name)}: {json.dumps(GOLDEN['results'][name])}" for name in every]
    text = (
        f'{{\n"fingerprint": {json.dumps(GOLDEN["fingerprint"])},\n"results": {{\n'
        + ",\n".join(lines)
        + "\n}}\n"
    )
    (here / "results.json").write_text(text)
    for name, expected in MODELS.items():
        model = BPFA.load(here / "models" / f"{name}.bpfa")
        X = pd.DataFrame(table(120, 6)[:5], columns=getattr(model, "feature_names_in_", None))
        expected["imputed"] = np.asarray(model.impute(X)).tolist()
    (here / "models" / "results.json").write_text(json.dumps(MODELS, indent=1) + "\n")


if __name__ == "__main__":
    main()
