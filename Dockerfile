# The site's image: web, worker and beat are the same image with another command (docker-compose.yml).
FROM python:3.13.9-slim-bookworm AS packages

COPY requirements.txt /tmp/requirements.txt
RUN python -m venv /opt/kvdiag \
    && /opt/kvdiag/bin/pip install --no-cache-dir --disable-pip-version-check \
        --require-hashes -r /tmp/requirements.txt


FROM python:3.13.9-slim-bookworm

RUN useradd --system --uid 10001 --home-dir /data --shell /usr/sbin/nologin kvdiag \
    && install -d -o kvdiag -g kvdiag -m 0700 /data

COPY --from=packages /opt/kvdiag /opt/kvdiag
ENV PATH=/opt/kvdiag/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    KVDIAG_DATA=/data \
    KVDIAG_STATIC_ROOT=/app/collected

WORKDIR /app
COPY manage.py requirements.txt LICENSE ./
COPY kvdiag kvdiag
COPY teams teams
COPY ingest ingest
COPY reports reports
COPY templates templates
COPY static static
# The data folder of this step is thrown away with the key made in it.
RUN KVDIAG_DATA=/tmp/build python manage.py collectstatic --no-input --verbosity 0 \
    && rm -rf /tmp/build \
    && python -m compileall -q kvdiag teams ingest reports

USER 10001
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/readyz', timeout=4)"]
CMD ["gunicorn", "kvdiag.wsgi:application", "--bind", "0.0.0.0:8000", \
     "--workers", "2", "--worker-class", "kvdiag.up.web_worker.PacedWorker", "--threads", "16", "--preload", \
     "--worker-tmp-dir", "/dev/shm", "--no-control-socket", "--timeout", "120", "--log-level", "warning"]
