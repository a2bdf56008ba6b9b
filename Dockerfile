# syntax=docker/dockerfile:1

# Two stages: what builds the program never reaches the image that runs it.
#
# Both stages: the long-term line of Node on a slim Debian. In full, since podman and buildah guess no registry. Pin the digest where you build, and rebuild when Node publishes.
ARG NODE_IMAGE=docker.io/library/node:26-trixie-slim

FROM ${NODE_IMAGE} AS build
WORKDIR /app
COPY package.json package-lock.json ./
COPY tools ./tools
# No install scripts anywhere: better-sqlite3 brings its binary along, and Node is the image's.
RUN npm ci --ignore-scripts
COPY tsconfig.json tsconfig.build.json ./
COPY src ./src
COPY sandbox ./sandbox
# Not "npm run build": npm would put the Node of the development packages first.
RUN node node_modules/typescript/bin/tsc -p tsconfig.build.json && rm -f dist/.tsbuildinfo
# From here on only what runs: the packages are installed anew rather than pruned, so that nothing is left over.
RUN rm -rf node_modules && npm ci --omit=dev --ignore-scripts && npm cache clean --force

FROM ${NODE_IMAGE}
ENV NODE_ENV=production \
    HOST=0.0.0.0 \
    PORT=8080 \
    OPS_HOST=0.0.0.0 \
    OPS_PORT=8081 \
    TMPDIR=/data
WORKDIR /app
# The only place that is written to: run with --read-only, and a volume here. The default file, ./data/mirror.db, is in it: were
# DATABASE_URL set above, DATABASE_URL_FILE would be refused.
RUN mkdir /data && chown node:node /data && chmod 0700 /data && ln -s /data data
VOLUME /data
COPY --from=build /app/package.json ./
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY drizzle ./drizzle
USER node
EXPOSE 8080 8081
STOPSIGNAL SIGTERM
# Live, not ready: a mirror that waits for its upstream is no reason to restart it.
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
  CMD ["node", "-e", "fetch('http://127.0.0.1:' + (process.env.PORT || 8080) + '/livez', { signal: AbortSignal.timeout(4000) }).then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
# Exec form: signals reach Node itself.
ENTRYPOINT ["node", "dist/src/main.js"]
CMD ["serve"]
