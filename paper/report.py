"""RESULTS.md, which is written from the stored records and never by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.cells import Record, Store
from experiments.markdown import text_table
from paper.conclusions import conclusions, table_of_all
from paper.experiment import Claim, Experiment, Section
from paper.readings import Reached, merged
from paper.summary import WORDS, headline, reproduced
from paper.verdicts import verdicts_picture

HEAD = """
Shah, Knowles & Ghahramani, *An Empirical Study of Stochastic Variational Algorithms for the Beta Bernoulli
Process*, ICML 2015: every experiment is run again, and every claim is compared with what we find. This page
is written by `python -m paper` from the records in `results/`; nothing on it is written by hand.{kind}

The methods run in the form that the paper gives them (independent features, all weights counted, step sizes
t^-0.75, a = b = 10, c = 1, d = 10, e = f = 1, data of mean 0 and variance 1), apart from three things. The
slips in its formulas are corrected (see the last section). The local bounds are climbed by ten sweeps of
exact coordinate updates, where the paper uses gradient descent; a section shows both. And z and w of a
feature are drawn together, where the paper draws them one after the other; the sections on burn-in and
interpolation show both. 'Our defaults' are `BPFA()`, `inpaint` and `denoise` with their default settings. On
pictures they have as much time as the other methods; on matrices they decide by themselves when to stop.
Times are those of training alone on one thread, including its start. The experiments on real data can run on
a GPU (`--device cuda`), where they make the same steps up to rounding; a line below each says where it ran.
"""
RULE = """
The rule: every pair of methods, task and seed is one comparison, and all methods have the same hidden
entries. A claim that one kind of method is better *holds* if that kind wins every comparison, *holds partly*
if it wins at least three quarters of them, and otherwise *does not hold*. A claim with several parts holds
partly if some of them hold. On real data this is applied twice, with three seeds: at the step that hidden
entries choose which are not scored (at its best), and after the last step (at its end). Both are judged by
long chains; [a study](#how-long-the-chains-have-to-be) shows how long they have to be, and every section
what the short chains of training give. Claims about starts, step sizes, times and sharpness rest on one
seed, as do the sections on the drift and on gradient ascent. Where the best step is the first one that was
judged, an earlier one may be better still.
"""
ALL = """
PSNR over missing pixels (interpolation, Gibbs start) and over all pixels (denoising), and log-likelihood per
hidden entry (matrices): at the best step / at the last step, by long chains, as means over the seeds. The
best of a row is bold. Our defaults are judged by the means and deviations of `impute` on matrices; they and
cubic interpolation have one seed on pictures.
"""
KINDS = {
    True: "\n\n**These are quick runs**, which only show that everything works; their numbers do not count.",
    False: "",
}


def write_report(experiments: list[Experiment], output: Path, *, quick: bool) -> Path:
    """Write the page from the records that are stored."""
    claims: list[tuple[Claim, str]] = []
    by_experiment: dict[str, Sequence[Claim]] = {}
    found: list[Reached] = []
    sentences: list[str] = []
    bodies = []
    for experiment in experiments:
        records = list(Store(results_path(output, experiment)).records.values())
        section = Section([], f"Not run yet: `python -m paper {experiment.name}`.")
        if records:
            section = experiment.section(records, output / "figures")
        link = f"[{experiment.name}](#{anchor(experiment)})"
        by_experiment[experiment.subject] = section.claims
        claims += [(claim, link) for claim in section.claims]
        found.append(section.reached)
        sentences += section.summary
        parts = [f"## {experiment.title}", section.body, about(records, experiment)]
        bodies.append("\n\n".join(part for part in parts if part))
    reached = merged(found)
    by_experiment["all real data"] = conclusions(reached)
    claims += [(claim, "all real data") for claim in by_experiment["all real data"]]
    rows = [
        [str(number), claim.text, claim.evidence, claim.in_words, link]
        for number, (claim, link) in enumerate(claims, start=1)
    ]
    lines = [*headline(reached), *reproduced(by_experiment), *sentences]
    page = [
        "# The paper, reproduced",
        "## Summary",
        WORDS,
        "\n".join(f"- {line}" for line in lines),
        *verdicts_picture(by_experiment, output / "figures"),
        "## Every claim",
        RULE.strip(),
        text_table(["", "the paper says", "we find", "verdict", "experiment"], rows),
        "## How it was run",
        HEAD.format(kind=KINDS[quick]).strip(),
    ]
    if reached["best"]:
        page += ["## All methods, and our defaults, in one table", ALL.strip(), table_of_all(reached)]
    page += bodies
    path = output / "RESULTS.md"
    path.write_text("\n\n".join(page) + "\n")
    return path


def results_path(output: Path, experiment: Experiment) -> Path:
    """Return the file in which the records of an experiment are stored."""
    return output / "results" / f"{experiment.name}.json"


def anchor(experiment: Experiment) -> str:
    """Return the name that Markdown gives to the heading of an experiment."""
    kept = [letter for letter in experiment.title.lower() if letter.isalnum() or letter in " -"]
    return "".join(kept).replace(" ", "-")


def about(records: list[Record], experiment: Experiment) -> str:
    """Return a line about the time, the seeds and the machine."""
    if not records:
        return ""
    minutes = sum(record["seconds"] for record in records) / 60
    seeds = sorted({record["settings"]["seed"] for record in records if "seed" in record["settings"]})
    named = (
        f"seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}" if seeds else "no seed"
    )
    machines = ", ".join(sorted({f"{record['machine']}, Python {record['python']}" for record in records}))
    return (
        f"*{len(records)} cells, {minutes:.1f} minutes in all, {named}; {machines}; `python -m paper "
        f"{experiment.name}`.*"
    )
