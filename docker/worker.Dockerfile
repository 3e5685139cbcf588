# The worker's image: launcher, rank program, and the libraries that they load; no Python.
#   from source:         docker build -f docker/worker.Dockerfile -t localhost/trainyard-worker:dev --build-arg VARIANT=cpu .
#   from built binaries: docker/build worker
# BASE     Debian 12 in any form
# STAGE    source: compiles here · prebuilt: takes what docker/collect has put into the context's folder prebuilt/
# VARIANT  cpu · cuda: adds the NCCL module, CUDA's libraries and NCCL; the driver comes from the node
ARG BASE=debian:bookworm-slim
ARG STAGE=source

FROM ${BASE} AS source
ARG VARIANT=cpu
# The certificate authorities that pip trusts, if they are not the usual ones.
ARG PIP_CERT
COPY . /src
WORKDIR /src
RUN if [ "$VARIANT" = cuda ]; then scripts/setup test; else scripts/setup build; fi \
 && cmake --preset release -DBUILD_TESTING=OFF \
 && cmake --build build/release --target $(docker/programs worker "$VARIANT") \
 && docker/collect --variant "$VARIANT" /out $(docker/programs worker "$VARIANT" | sed 's|^|build/release/bin/|')

FROM scratch AS prebuilt
COPY prebuilt /out

FROM ${STAGE} AS built

FROM ${BASE}
# The libraries have a layer of their own: they change rarely, and are nearly all of the image's bytes.
COPY --from=built /out/certificates/ /etc/ssl/certs/
COPY --from=built /out/lib/ /usr/local/lib/
RUN ldconfig
COPY --from=built /out/bin/ /usr/local/bin/
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/trainyard-worker"]
