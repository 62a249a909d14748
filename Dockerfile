# CARIBOU for processors, without CUDA.
#   docker build -t caribou --build-arg TORCH_INDEX=... .   plans, trains and attacks; the index of CPU builds that pytorch.org names
#   docker build -t caribou-core --build-arg EXTRAS= .      plans, verifies, keeps ledgers, inspects tables: no torch
#   docker run --rm -v "$PWD:/work" caribou train votes-edp --dataset csbm --epsilon 4 --out run
FROM python:3.11-slim AS build
# the compiled loops are optional, and worth a compiler in the stage that is thrown away
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY pyproject.toml setup.py README.md LICENSE ./
COPY src src
RUN pip wheel --no-cache-dir --no-deps -w /wheels .

FROM python:3.11-slim
ARG EXTRAS=[train]
ARG TORCH_INDEX=
COPY constraints.txt hashes /tmp/
# mounted, so that no layer keeps the wheel; all by the hashes of their files, but torch (from the index of CPU builds if one is
# given) and what extras besides train need, which come by their versions
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-compile --no-deps --require-hashes -r /tmp/core.txt ${EXTRAS:+-r /tmp/train.txt} \
 && if [ -n "$EXTRAS" ]; then \
      pip install --no-cache-dir ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} "$(grep '^torch==' /tmp/constraints.txt)"; \
    fi \
 && pip install --no-cache-dir --no-compile -c /tmp/constraints.txt "$(ls /wheels/*.whl)$EXTRAS" \
 && caribou plan --json > /dev/null
RUN useradd --create-home caribou && install -d -o caribou /work
USER caribou
WORKDIR /work
ENTRYPOINT ["caribou"]
CMD ["--help"]
