"""Lets pages of the console wait for the cluster, however busy the machine is."""

from bowstring.console import cluster_summary
from bowstring.console.pages import brokers, connector_changes, connectors, groups, overview

PATIENT_S = 60.0


def be_patient(monkeypatch):
    """Pages show what the cluster answers, not a frame that is filled later."""
    monkeypatch.setattr(cluster_summary, "SOON_S", PATIENT_S)
    for page in (brokers, connector_changes, connectors, groups, overview):
        monkeypatch.setattr(page, "PAINT_S", PATIENT_S)
