# The image that programs with models of your own are built in: the worker's image with a compiler, CMake, Trainyard's package and LibTorch's headers.
#   from source:         docker build -f docker/devel.Dockerfile -t localhost/trainyard-devel:dev .       after the worker's image
#   from built binaries: docker/build devel
# BASE    Debian 12 in any form
# WORKER  the worker's image
# STAGE   source: compiles here · prebuilt: takes what docker/package has put into the context's folder prebuilt/
ARG BASE=debian:bookworm-slim
ARG WORKER=localhost/trainyard-worker:dev
ARG STAGE=source

FROM ${BASE} AS source
# The certificate authorities that pip trusts, if they are not the usual ones.
ARG PIP_CERT
COPY . /src
WORKDIR /src
RUN scripts/setup build \
 && cmake --preset release -DBUILD_TESTING=OFF \
 && cmake --build build/release --target installed \
 && docker/package /out build/release

FROM scratch AS prebuilt
COPY prebuilt /out

FROM ${STAGE} AS built

FROM ${WORKER}
USER 0:0
# For packages only: nothing of it stays in the image.
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends cmake g++ make >/dev/null \
 && rm -rf /var/lib/apt/lists/*
COPY --from=built /out/trainyard/ /usr/local/
COPY --from=built /out/torch/ /opt/torch/
RUN ln -s /usr/local/lib /opt/torch/lib && ldconfig
ENV TRAINYARD_TORCH=/opt/torch
WORKDIR /src
ENTRYPOINT []
CMD ["/bin/bash"]
