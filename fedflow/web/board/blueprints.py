"""Every blueprint of the board."""

from __future__ import annotations

from typing import Final

from flask import Blueprint

from fedflow.web.board.compare import board_compare
from fedflow.web.board.component import board_component
from fedflow.web.board.component_data import board_component_data
from fedflow.web.board.component_metrics import board_component_metrics
from fedflow.web.board.component_model import board_component_model
from fedflow.web.board.home import board_home
from fedflow.web.board.job import board_job
from fedflow.web.board.job_actions import board_job_actions
from fedflow.web.board.job_definition import board_job_definition
from fedflow.web.board.job_events import board_job_events
from fedflow.web.board.job_timeline import board_job_timeline
from fedflow.web.board.jobs import board_jobs
from fedflow.web.board.logs import board_logs
from fedflow.web.board.model_actions import board_model_actions
from fedflow.web.board.models import board_models
from fedflow.web.board.old_links import board_old_links
from fedflow.web.board.parties import board_parties
from fedflow.web.board.queue import board_queue
from fedflow.web.board.serving import board_serving
from fedflow.web.board.settings import board_settings
from fedflow.web.board.sign_in import board_account, board_sign_in
from fedflow.web.board.site import board_site
from fedflow.web.board.submit import board_submit
from fedflow.web.board.table_actions import board_table_actions
from fedflow.web.board.tables import board_tables

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
