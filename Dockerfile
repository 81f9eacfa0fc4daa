# One image for the worker, Flower, the inspector and the command line, with the extras of the Makefile's IMAGE_EXTRAS.
# Health checks are in docker-compose.yml: they differ.

FROM python:3.12-slim AS build
WORKDIR /src
RUN python -m venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
# First what seldom changes, each file as its hash says; then the project, which needs nothing more.
COPY requirements-image.txt ./
RUN pip install --require-hashes -r requirements-image.txt
COPY pyproject.toml README.md LICENSE ./
COPY client client
COPY config config
COPY worker worker
COPY workbench workbench
RUN pip install --no-deps --no-build-isolation ./client .

FROM python:3.12-slim
# The user owns none of the files below: a process that is taken over can't change its own code.
# It may write files of runs to /artifacts, where a volume is mounted, and nowhere else.
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin worker \
    && install -d -o worker /artifacts
COPY --from=build /opt/venv /opt/venv
WORKDIR /app
COPY config config
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    RETRIEVAL_WORKER_ARTIFACTS__URL=/artifacts
USER 10001
CMD ["celery", "-A", "worker.app", "worker", "-n", "worker@%h", "-Q", "retrieval,pipeline", "--autoscale=8,2", "--without-mingle", "--without-gossip"]
