"""Plots of a fitted BPFA: components, usage, trace, coverage and residuals. They need matplotlib."""

from bpfa.plots.plots import plot_components, plot_coverage, plot_residuals, plot_trace, plot_usage

__all__ = ["plot_components", "plot_coverage", "plot_residuals", "plot_trace", "plot_usage"]
