"""Reports: one HTML file that needs nothing else, of a restored image or of a fitted model."""

from bpfa.report.image import image_report
from bpfa.report.model import model_report

__all__ = ["image_report", "model_report"]
