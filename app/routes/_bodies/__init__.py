"""What the page may send: one model for each route's body, by area.

A body that does not fit is answered with 422 and a sentence (errors.py). Keys that no model names are passed over.
"""

from __future__ import annotations

from app.routes._bodies.accounts import Account, AccountRole
from app.routes._bodies.base import Body
from app.routes._bodies.clusters import ClusterMap, Points, Projection, Tag, View
from app.routes._bodies.medmix import Figure, Preset, PresetFile, Probe, Scene, YamlText
from app.routes._bodies.report import Report
from app.routes._bodies.reviews import (
    CaseTag,
    Clicks,
    Decision,
    Finding,
    ReadingSession,
    ReviewSettings,
    Threshold,
    Travel,
)
from app.routes._bodies.studies import Add, Assign, Import, Kind, Labels, Unassign, Watch
from app.routes._bodies.training import Action, DryRun, Fit, Learn, Training, TrainingConfig

__all__ = [
    "Body",
    "Import",
    "Add",
    "Watch",
    "Labels",
    "Kind",
    "Assign",
    "Unassign",
    "Account",
    "AccountRole",
    "Scene",
    "Figure",
    "Probe",
    "Preset",
    "PresetFile",
    "YamlText",
    "TrainingConfig",
    "DryRun",
    "Training",
    "Fit",
    "Learn",
    "Action",
    "ClusterMap",
    "Points",
    "Tag",
    "View",
    "Projection",
    "Travel",
    "Decision",
    "ReviewSettings",
    "Threshold",
    "ReadingSession",
    "Finding",
    "CaseTag",
    "Clicks",
    "Report",
]
