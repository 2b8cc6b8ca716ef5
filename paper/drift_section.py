"""The section about the drift on the mass cytometry, and the tables of its page in docs/notes."""

from __future__ import annotations

from pathlib import Path

from experiments.cells import Record
from experiments.markdown import replace_section
from paper.drift import cells, run
from paper.drift_tables import by_name, draw, sampler_table, steps_table
from paper.experiment import Experiment, Section
from paper.figures import image_link
from paper.heavy_tails import CAPTION as TAILS
from paper.heavy_tails import answer, draw_tails, noise_table

CAPTION = (
    "Cytometry, 4,000 cells, K = 500: the noise that is learned and how well hidden entries are predicted, "
    "over the steps of the stochastic runs and the sweeps of the sampler"
)
WORDS = (
    "{rows:,} cells of the mass cytometry with K = {features}. 'Largest column' is the share of a feature's "
    "squared length that lies in its largest column, as a mean over features by their use: 1 for features of "
    "single proteins. Scores of the stochastic runs are by long chains; the sampler predicts by its own "
    "states, the second half of the chain."
)


def section(records: list[Record], figures: Path) -> Section:
    settings = records[0]["settings"]
    parts = [
        WORDS.format(**settings)
        + " [The page about the drift](../docs/notes/drift.md) says what follows from "
        "this.",
        steps_table(records),
        sampler_table(records),
        "Both kinds of noise in the sampler on tables of the benchmark of imputation (2,000 rows, at most 60 "
        "columns, K as in the benchmark, start from principal components, 400 sweeps):\n\n"
        + noise_table(records),
        answer(records),
    ]
    if draw_tails(records, figures):
        parts.append(image_link("heavy-tails", TAILS))
    if draw(records, figures):
        parts.append(image_link("drift", CAPTION))
    return Section([], "\n\n".join(filter(None, parts)), summary=sentence(records))


def sentence(records: list[Record]) -> list[str]:
    """Return a sentence about where the posterior itself has the noise."""
    found = by_name(records)
    ends = {name: result["trace"][-1] for name, result in found.items() if "trace" in result}
    good, drifted = ends.get("sampler/good"), ends.get("sampler/drifted")
    short = found.get("steps/short chains", {}).get("ladder")
    if not (good and drifted and short):
        return []
    best = max(short, key=lambda rung: float(rung["log_likelihood"]))
    noise = max(good["noise_std"], drifted["noise_std"])
    where = "towards" if noise < short[-1]["noise_std"] else "not towards"
    kept = [f"{rung['integrated']:.2f}" for rung in (best, short[-1])]
    verb = "falls too" if short[-1]["integrated"] < best["integrated"] else "does not fall"
    return [
        f"**Why Gibbs-SSVI drifts on the cytometry: {where} the posterior of its model.** It predicts best "
        f"at a noise of {best['noise_std']:.2f}, and the sampler of the same model reaches {noise:.2f}. With "
        f"the weights integrated out, its score {verb}: it goes from {kept[0]} to {kept[1]}."
    ]


def update_note(page: Path, records: list[Record]) -> None:
    """Write the tables into the page, between its markers."""
    text = page.read_text()
    text = replace_section(text, "steps", steps_table(records))
    text = replace_section(text, "noise", noise_table(records))
    text = replace_section(text, "answer", answer(records))
    page.write_text(replace_section(text, "sampler", sampler_table(records)))


EXPERIMENT = Experiment("drift", "Why it drifts", cells, run, section, on_device=True)
"""Its runs are those of `paper.drift`."""
