"""Reports about a restored image or a fitted model: one HTML file, which needs no other file."""

from bpfa.report.image import image_report
from bpfa.report.model import model_report

__all__ = ["image_report", "model_report"]
