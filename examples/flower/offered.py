"""What this provider offers: FlowerApp, over the Flower projects in `projects`."""

from pathlib import Path

from fedflow.flower.component import flower_app

COMPONENTS = flower_app(Path(__file__).resolve().parent / "projects")
