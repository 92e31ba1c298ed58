# docker build -t glofnd .
# docker run --rm -v "$PWD:/data" glofnd discover embeddings.npy --out found
FROM debian:bookworm-slim AS build
WORKDIR /src
COPY tools/deps.sh tools/deps.sh
RUN sh tools/deps.sh --install
COPY . .
RUN make debs CUDA=OFF

FROM debian:bookworm-slim
COPY --from=build /src/build/package/glofnd_*.deb /tmp/
RUN apt-get update \
    && apt-get install -y --no-install-recommends /tmp/glofnd_*.deb libdnnl2 \
    && rm -rf /tmp/glofnd_*.deb /var/lib/apt/lists/*
WORKDIR /data
ENTRYPOINT ["glofnd"]
CMD ["--help"]
