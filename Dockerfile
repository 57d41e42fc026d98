# The command line and the studio. Build: docker build -t weft .
# Run:    docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/data" weft synth stays.csv --one-row-per-person --epsilon 1 -o released.csv
# Studio: docker run --rm -p 127.0.0.1:8765:8765 -v weft-studio:/data -e WEFT_STUDIO_PASSWORD=... weft studio --no-open --host 0.0.0.0 --port 8765 --i-know
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY weft ./weft
RUN pip install --no-cache-dir --prefix=/install '.[studio,report,duckdb,postgres,sqlite,excel,stats,evaluate,evidence]'

FROM python:3.12-slim
COPY --from=build /install /usr/local
# Any user id may run it: files written to a bind mount then belong to the person who started it.
RUN useradd --create-home --uid 10001 weft && mkdir /data && chown weft /data && chmod 0777 /data /home/weft
USER weft
WORKDIR /data
VOLUME /data
ENV HOME=/home/weft NUMBA_CACHE_DIR=/tmp/numba
ENTRYPOINT ["weft"]
CMD ["--help"]
