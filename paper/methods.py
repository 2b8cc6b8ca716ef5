"""The methods by the names they have in the settings: their labels, and their colours in every figure."""

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
"""The methods whose posterior takes the features of a row to be independent of one another."""
GIBBS_KINDS = ("mimno-svi", "gibbs-ssvi")
"""The methods that draw the features of a row by Gibbs sampling."""
INTRA_LOCAL = [(one, other) for one in GIBBS_KINDS for other in MEAN_FIELD_KINDS]
"""The comparisons that show what dependence among the local variables of a row is worth."""
STRUCTURED = [("gibbs-ssvi", "mimno-svi"), ("mf-ssvi", "mf-svi")]
"""Those that show what dependence between local and global variables is worth."""
# The colours of Okabe and Ito, which the colour-blind can tell apart; the markers are for print in grey.
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
