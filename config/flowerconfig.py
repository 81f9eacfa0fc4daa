"""Flower's configuration: `celery -A worker.app flower --conf=config/flowerconfig.py`.

Every option may also come from the environment as FLOWER_<OPTION>. Set FLOWER_BASIC_AUTH=user:password:
without it Flower refuses its API, and shows its pages to any client of the port.
"""

import os

from worker.queue.broker.depths import watcher
from worker.queue.metrics import show_shared
from worker.settings import load
from worker.settings.serving import QUEUES

address = os.environ.get("FLOWER_ADDRESS", "127.0.0.1")
port = int(os.environ.get("FLOWER_PORT", "5555"))
basic_auth = [pair for pair in os.environ.get("FLOWER_BASIC_AUTH", "").split(",") if pair]

# Tasks are kept in memory: enough for a look at the last minutes, not a history.
max_tasks = 5_000
max_workers = 200
purge_offline_workers = 300
inspect_timeout = 2000.0
tasks_columns = "name,uuid,state,args,received,started,runtime,worker"
natural_time = False

# One scrape of Flower's /metrics shows what the workers counted as well, where they share a folder with it.
settings = load()
# Flower's user may count dead letters and delayed messages; the workers' own /metrics show the rest.
broker = settings.broker_url.get_secret_value()
show_shared(settings.metrics.folder, watcher(broker, QUEUES, details=False))
