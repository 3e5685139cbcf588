# The operator's image: its program, the libraries that the base image lacks, and the certificates of public authorities.
#   from source:        docker build -f docker/operator.Dockerfile .
#   from built binaries: docker/build operator
# BASE   Debian 12 in any form
# STAGE  source: compiles here · prebuilt: takes what docker/collect has put into the context's folder prebuilt/
ARG BASE=debian:bookworm-slim
ARG STAGE=source

FROM ${BASE} AS source
COPY . /src
WORKDIR /src
RUN scripts/setup operator \
 && cmake --preset operator -DBUILD_TESTING=OFF \
 && cmake --build build/operator --target $(docker/programs operator) \
 && docker/collect /out $(docker/programs operator | sed 's|^|build/operator/bin/|')

FROM scratch AS prebuilt
COPY prebuilt /out

FROM ${STAGE} AS built

FROM ${BASE}
COPY --from=built /out/certificates/ /etc/ssl/certs/
COPY --from=built /out/lib/ /usr/local/lib/
RUN ldconfig
COPY --from=built /out/bin/ /usr/local/bin/
# A number, so that Kubernetes can see that the user is not root. The program writes no files: the root file system may be read-only.
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/trainyard-operator"]
