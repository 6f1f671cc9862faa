#!/bin/sh
# Builds the images of the servers that tests run in containers, from fanfold-test/base and Debian's packages, without a registry:
#   fanfold-test/redis     redis-server
#   fanfold-test/postgres  PostgreSQL's programs, on the path, to be run as the user postgres
# and what stands for the public images of infra/compose.yaml, with their users, folders, entry points and variables:
#   fanfold-test/compose-postgres, fanfold-test/compose-valkey, fanfold-test/compose-prometheus
# What is there already is kept. `--rebuild` throws the images away first. scripts/test-images.sh makes the base.
set -eu

NAMES="redis postgres compose-postgres compose-valkey compose-prometheus"

say() { echo "service-images: $*"; }

# The builder that every engine has: Docker's newer one is a plugin that may be missing.
build() { DOCKER_BUILDKIT=0 docker build --quiet --target "$1" --tag "fanfold-test/$1:latest" - 2>&1; }

# Nothing here outlives a power cut, so that dpkg need not wait for the disk. PostgreSQL works without its compiler of queries,
# which is most of its size.
dockerfile() {
    cat <<'END'
FROM fanfold-test/base:latest AS packages
ENV DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
RUN printf '%s\n' force-unsafe-io \
        'path-exclude=/usr/share/doc/*' 'path-exclude=/usr/share/locale/*' 'path-exclude=/usr/share/man/*' \
        'path-exclude=/usr/lib/*/libLLVM*' 'path-exclude=/usr/lib/llvm-*' \
        'path-exclude=/usr/lib/postgresql/*/lib/bitcode/*' 'path-exclude=/usr/lib/postgresql/*/lib/llvmjit*' \
        >/etc/dpkg/dpkg.cfg.d/fanfold-test

FROM packages AS redis
RUN apt-get update -qq && apt-get install -qq -y --no-install-recommends redis-server && \
    rm -rf /var/lib/apt/lists/* /var/cache/apt/*
USER redis

FROM packages AS postgres
RUN mkdir -p /etc/postgresql-common && echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf && \
    apt-get update -qq && apt-get install -qq -y --no-install-recommends postgresql && \
    rm -rf /var/lib/apt/lists/* /var/cache/apt/* && \
    ln -s /usr/lib/postgresql/*/bin/* /usr/local/bin/ && install -d -o postgres -m 700 /data
USER postgres

FROM packages AS compose-postgres
RUN groupadd --system --gid 999 postgres && \
    useradd --system --uid 999 --gid postgres --home-dir /var/lib/postgresql postgres && \
    mkdir -p /etc/postgresql-common && echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf && \
    apt-get update -qq && apt-get install -qq -y --no-install-recommends postgresql && \
    rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/lib/postgresql/* && \
    ln -s /usr/lib/postgresql/*/bin/* /usr/local/bin/ && \
    install -d -o postgres -g postgres -m 1777 /var/lib/postgresql/data /var/run/postgresql && \
    printf '%s\n' '#!/bin/sh' 'set -eu' \
        'if ! test -s "$PGDATA/PG_VERSION"; then' \
        '    printf "%s" "$POSTGRES_PASSWORD" >/tmp/password' \
        '    initdb --username="$POSTGRES_USER" --auth-local=trust --auth-host=scram-sha-256 --encoding=UTF8 --locale=C --pwfile=/tmp/password --no-sync' \
        '    rm /tmp/password' \
        '    echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"' \
        '    pg_ctl --options="-c listen_addresses=" --wait start >/dev/null' \
        '    createdb --username="$POSTGRES_USER" "$POSTGRES_DB"' \
        '    pg_ctl --mode=fast --wait stop >/dev/null' \
        'fi' \
        'exec "$@" -c "listen_addresses=*"' >/usr/local/bin/docker-entrypoint.sh && \
    chmod 755 /usr/local/bin/docker-entrypoint.sh
ENV PGDATA=/var/lib/postgresql/data
VOLUME /var/lib/postgresql/data
STOPSIGNAL SIGINT
ENTRYPOINT ["docker-entrypoint.sh"]
CMD ["postgres"]

FROM packages AS compose-valkey
RUN groupadd --system --gid 999 valkey && useradd --system --uid 999 --gid valkey valkey && \
    apt-get update -qq && apt-get install -qq -y --no-install-recommends redis-server && \
    rm -rf /var/lib/apt/lists/* /var/cache/apt/* && \
    ln -s redis-server /usr/bin/valkey-server && ln -s redis-cli /usr/bin/valkey-cli && \
    install -d -o valkey -g valkey /data
VOLUME /data
WORKDIR /data
CMD ["valkey-server"]

FROM packages AS compose-prometheus
RUN apt-get update -qq && apt-get install -qq -y --no-install-recommends prometheus && \
    rm -rf /var/lib/apt/lists/* /var/cache/apt/* && \
    ln -s /usr/bin/prometheus /bin/promtool /usr/local/bin/ && install -d -o 65534 -g 65534 /prometheus
USER 65534:65534
VOLUME /prometheus
WORKDIR /prometheus
ENTRYPOINT ["/usr/bin/prometheus"]
END
}

if [ "${1:-}" = --rebuild ]; then
    for name in $NAMES; do
        docker image rm -f "fanfold-test/$name" >/dev/null 2>&1 || true
    done
fi
for name in $NAMES; do
    if docker image inspect "fanfold-test/$name:latest" >/dev/null 2>&1; then
        say "fanfold-test/$name is there"
        continue
    fi
    if ! output=$(dockerfile | build "$name"); then
        say "fanfold-test/$name could not be built:" >&2
        echo "$output" >&2
        exit 1
    fi
    say "fanfold-test/$name is built"
done
