"""The paper's methods by their names here: what they are called, and their colours in every figure."""

from __future__ import annotations

METHODS = {
    "mf-svi": "MF-SVI",
    "mf-ssvi": "MF-SSVI",
    "titsias-ssvi": "Titsias-SSVI",
    "mimno-svi": "Mimno-SVI",
    "gibbs-ssvi": "Gibbs-SSVI",
}
"""The five stochastic variational methods, in the paper's order."""
OTHERS = {"gibbs": "Gibbs sampler", "defaults": "our defaults", "cubic": "cubic interpolation"}
LABELS = METHODS | OTHERS
MEAN_FIELD_KINDS = ("mf-svi", "mf-ssvi", "titsias-ssvi")
"""Those whose features are independent of one another within a row."""
GIBBS_KINDS = ("mimno-svi", "gibbs-ssvi")
# Okabe and Ito's colours, which the colour-blind can tell apart; markers for print in grey.
COLOURS = {
    "mf-svi": "#E69F00",
    "mf-ssvi": "#56B4E9",
    "titsias-ssvi": "#009E73",
    "mimno-svi": "#CC79A7",
    "gibbs-ssvi": "#D55E00",
    "gibbs": "#0072B2",
    "defaults": "#000000",
    "cubic": "#777777",
}
MARKERS = {
    "mf-svi": "v",
    "mf-ssvi": "^",
    "titsias-ssvi": "s",
    "mimno-svi": "D",
    "gibbs-ssvi": "o",
    "gibbs": "P",
    "defaults": "*",
    "cubic": "x",
}
