"""Every blueprint of the board."""

from __future__ import annotations

from typing import Final

from flask import Blueprint

from fedflow.board.compare import board_compare
from fedflow.board.component import board_component
from fedflow.board.component_data import board_component_data
from fedflow.board.component_metrics import board_component_metrics
from fedflow.board.component_model import board_component_model
from fedflow.board.home import board_home
from fedflow.board.job import board_job
from fedflow.board.job_actions import board_job_actions
from fedflow.board.job_definition import board_job_definition
from fedflow.board.job_events import board_job_events
from fedflow.board.job_timeline import board_job_timeline
from fedflow.board.jobs import board_jobs
from fedflow.board.logs import board_logs
from fedflow.board.model_actions import board_model_actions
from fedflow.board.models import board_models
from fedflow.board.old_links import board_old_links
from fedflow.board.parties import board_parties
from fedflow.board.queue import board_queue
from fedflow.board.serving import board_serving
from fedflow.board.settings import board_settings
from fedflow.board.sign_in import board_account, board_sign_in
from fedflow.board.site import board_site
from fedflow.board.submit import board_submit
from fedflow.board.table_actions import board_table_actions
from fedflow.board.tables import board_tables

BLUEPRINTS: Final[tuple[Blueprint, ...]] = (
    board_account,
    board_compare,
    board_component,
    board_component_metrics,
    board_logs,
    board_model_actions,
    board_models,
    board_old_links,
    board_jobs,
    board_job_actions,
    board_home,
    board_job,
    board_job_definition,
    board_job_events,
    board_job_timeline,
    board_settings,
    board_sign_in,
    board_site,
    board_parties,
    board_queue,
    board_serving,
    board_submit,
    board_component_data,
    board_component_model,
    board_table_actions,
    board_tables,
)
